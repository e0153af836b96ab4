"""What the judge answers: load the operator, prepare calls, time PyTorch, verify outputs."""

from __future__ import annotations

import gc
import platform
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from gpu_eval.busy import waited_us
from gpu_eval.child import ExpectedFailure
from gpu_eval.errors import UnusableInput
from gpu_eval.judge.arena import Arena, CudaArena, HostArena, lay_out
from gpu_eval.judge.compare import ErrorProfile
from gpu_eval.judge.cost import CostCounter, minimal_bytes
from gpu_eval.judge.device import TorchDevice
from gpu_eval.judge.inputs import OWN, VARIANTS, plain_inputs, vary
from gpu_eval.judge.reference import Reference, clone_all
from gpu_eval.judge.stages import operator_stage
from gpu_eval.judge.verdicts import Expected, Verifier
from gpu_eval.operators.loading import load_module
from gpu_eval.operators.source import OperatorSource, parse_operator
from gpu_eval.results import Precision, Protocol

VARIANT_EVERY = 4  # of the timed calls, one in so many has inputs of another distribution


class Judge:
    """State of one operator on one device. Methods are requests; their results are JSON."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.exchange = Path(settings["exchange"])
        self.exchange_bytes = int(settings["exchange_bytes"])
        self.device = TorchDevice(settings["device"])
        self.device.open(float(settings["device_fraction"]))
        self.source: OperatorSource
        self.reference: Reference
        self.protocol = Protocol.STRICT
        self.arena: Arena
        self.arenas = 0
        self.inputs: list[Any] = []
        self.scalars: dict[int, Any] = {}
        self.plain: list[bool] = []
        self.verifier: Verifier
        self.cost = CostCounter()
        self.expected: Expected | None = None
        self.own_errors: dict[str, list[ErrorProfile]] = {}
        self.usable_variants: list[str] = []
        self.seed = 0
        self.compiled: Callable[..., Any] | None = None

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        from gpu_eval.judge import inspection

        return {
            "hello": self.hello,
            "load": self.load,
            "build": self.build,
            "draw": self.draw,
            "layout": self.layout,
            "begin": self.begin,
            "prepare": self.prepare,
            "repeat": self.repeat,
            "baseline": self.baseline,
            "verify": self.verify,
            "health": lambda **params: inspection.health(self, **params),
            "compile_baseline": lambda **params: inspection.compile_baseline(self, **params),
            "capture": lambda: inspection.capture_graph(self),
        }

    # The operator, in stages that have their own deadlines.

    def hello(self) -> dict[str, Any]:
        return {"versions": {"python": platform.python_version(), "torch": torch.__version__}}

    def load(self, source: str, filename: str, preset: str | None, precision: str, protocol: str) -> None:
        """Execute the operator file."""
        self.protocol = Protocol(protocol)
        self.device.set_precision(Precision(precision), self.protocol)
        self.source = parse_operator(source, filename)
        with operator_stage("the file", filename):
            module = load_module(self.source, preset)
        self.reference = Reference(module, self.device.name, Precision(precision))

    def build(self, seed: int) -> None:
        """Make the model."""
        with operator_stage("Model()", self.source.filename):
            self.reference.build(seed)

    def draw(self, seed: int) -> None:
        """Draw the first inputs, which fix shapes and scalars."""
        with operator_stage("get_inputs()", self.source.filename):
            self.inputs = self.reference.draw_inputs(seed)
        self.scalars = {i: v for i, v in enumerate(self.inputs) if not isinstance(v, torch.Tensor)}
        self.plain = plain_inputs(self.inputs)

    def layout(self, seed: int) -> dict[str, Any]:
        """Run forward once, count its work, make the arena. Answers where every tensor lies."""
        with operator_stage("Model.forward()", self.source.filename):
            outputs = self.reference.eager(self.inputs, seed)
            with self.cost:
                self.reference.eager(self.inputs, seed)
        weights = self.reference.weights()
        tensors = [value for value in self.inputs if isinstance(value, torch.Tensor)]
        self.arena = self.make_arena([*tensors, *weights.values(), *outputs])
        regions = list(self.arena.regions)
        shared = [self.claim(tensor, regions) for tensor in (*tensors, *weights.values(), *outputs)]
        count, last = len(tensors), len(tensors) + len(weights)
        self.verifier = Verifier(
            arena=self.arena,
            protocol=self.protocol,
            depth=self.cost.depth,
            inputs=dict(zip(self.tensor_names(), shared[:count], strict=True)),
            weights=dict(zip(weights, shared[count:last], strict=True)),
            outputs=shared[last:],
        )
        self.device.use_threads_for(self.arena.nbytes // 4)
        self.find_usable_variants(seed)
        self.device.prepare_flush(self.protocol)
        return self.describe_layout(tensors, weights, outputs)

    def describe_layout(
        self, tensors: list[torch.Tensor], weights: dict[str, torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        """Specs, handles and work as JSON."""
        handles = iter([self.arena.handle(region) for region in self.arena.regions])
        inputs: list[dict[str, Any]] = []
        for name, value in zip(self.input_names(), self.inputs, strict=True):
            if isinstance(value, torch.Tensor):
                inputs.append({"name": name, **spec_of(value), "handle": next(handles)})
            else:
                inputs.append({"name": name, "value": value})
        return {
            "inputs": inputs,
            "params": {name: {**spec_of(value), "handle": next(handles)} for name, value in weights.items()},
            "outputs": [{**spec_of(value), "handle": next(handles)} for value in outputs],
            "work": {
                "input_bytes": minimal_bytes(tensors, list(weights.values())),
                "output_bytes": minimal_bytes(outputs),
                "flops": self.cost.flops,
            },
            "depth": self.cost.depth,
        }

    def make_arena(self, tensors: list[torch.Tensor]) -> Arena:
        """Memory for all tensors. Raises ExpectedFailure ("operator") when it would be too large."""
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        total = lay_out(sizes)[1]
        if total > self.exchange_bytes:
            raise ExpectedFailure(
                "operator",
                f"{self.source.filename}: inputs, weights and outputs take {total / 1e9:.1f} GB, more than "
                f"the {self.exchange_bytes / 1e9:.1f} GB that an evaluation may use.",
            )
        if self.device.kind == "cuda":
            return CudaArena(sizes)
        self.arenas += 1
        return HostArena(sizes, self.exchange / f"arena-{self.arenas}")

    def claim(self, tensor: torch.Tensor, regions: list[Any]) -> torch.Tensor:
        """The arena's next region as a tensor like ``tensor``."""
        return self.arena.view(regions.pop(0), tuple(tensor.shape), tensor.dtype)

    def input_names(self) -> list[str]:
        """Names of forward's parameters, made up where the file does not tell."""
        names = list(self.source.input_names[: len(self.inputs)])
        return names + [f"input{index}" for index in range(len(names), len(self.inputs))]

    def tensor_names(self) -> list[str]:
        """Names of the inputs that are tensors."""
        pairs = zip(self.input_names(), self.inputs, strict=True)
        return [name for name, value in pairs if isinstance(value, torch.Tensor)]

    def find_usable_variants(self, seed: int) -> None:
        """Keep the distributions on which PyTorch itself runs and is mostly finite."""
        self.usable_variants = []
        if self.protocol is Protocol.KERNELBENCH or not any(self.plain):
            return
        for variant in VARIANTS:
            inputs = vary(self.inputs, self.plain, variant, seed)
            try:
                outputs = self.reference.eager(inputs, seed)
            except (RuntimeError, ValueError, IndexError, AssertionError):
                continue
            if all(mostly_finite(output) for output in outputs):
                self.usable_variants.append(variant)

    # One candidate.

    def begin(self, seed: int) -> None:
        """Forget the last candidate: initial weights, guards armed, errors of PyTorch unknown."""
        self.seed = seed
        self.own_errors = {}
        self.expected = None
        self.reference.set_weights(None)
        self.verifier.begin(self.reference.weights())
        self.choose_threads(seed)

    def prepare(self, index: int, timed: bool = False) -> dict[str, Any]:
        """Fresh inputs in the arena, outputs poisoned. Answers the distribution and new weights."""
        variant = self.variant_of(index, timed)
        call_seed = derived_seed(self.seed, "timed" if timed else "check", index)
        new_weights = self.change_weights(index, timed)
        inputs = self.fresh_inputs(variant, call_seed)
        self.expected = Expected(inputs=inputs, variant=variant, seed=call_seed)
        if not timed:
            self.compute_expected()
        self.verifier.place(inputs)
        self.device.synchronise()
        if timed:
            self.device.flush()
        return {"variant": variant, "new_weights": new_weights}

    def repeat(self) -> None:
        """Poison the outputs again and keep the inputs: the candidate must say the same twice."""
        self.verifier.remember()
        self.verifier.poison_outputs()
        self.device.synchronise()

    def baseline(self) -> dict[str, float]:
        """One eager call on the prepared inputs: its microseconds, and how long it waited for a core."""
        expected = self.current()
        self.device.flush()
        waited = waited_us()
        elapsed, outputs = self.timed_call(expected)
        waited = waited_us() - waited
        self.device.settle()
        self.device.flush()
        if not expected.eager:
            expected.eager = outputs
        return {"us": elapsed, "waited_us": waited}

    def timed_call(self, expected: Expected) -> tuple[float, list[torch.Tensor]]:
        """Eager PyTorch under the clock."""
        with operator_stage("Model.forward()", self.source.filename), self.device.as_timed():
            return self.reference.timed(expected.inputs, expected.seed, self.device.clock)

    def choose_threads(self, seed: int) -> None:
        """See `TorchDevice.choose_timed_threads`."""
        expected = Expected(inputs=self.inputs, variant=OWN, seed=seed)
        self.device.choose_timed_threads(lambda: self.timed_call(expected)[0])

    def verify(self, repeated: bool = False) -> dict[str, Any]:
        """What is wrong with the outputs now in the arena; see `Verifier.verify`."""
        expected = self.current()
        if repeated:
            return self.verifier.verify_repeated(expected)
        errors = self.own_errors.get(expected.variant, self.own_errors.get(OWN))
        return self.verifier.verify(expected, errors)

    def variant_of(self, index: int, timed: bool) -> str:
        """Own inputs first, then each usable variant in turn; among timed calls one in `VARIANT_EVERY`."""
        usable = self.usable_variants
        if not usable:
            return OWN
        if timed:
            turn, position = divmod(index, VARIANT_EVERY)
            return usable[turn % len(usable)] if position == VARIANT_EVERY - 1 else OWN
        return OWN if index < 2 else usable[(index - 2) % len(usable)]

    def change_weights(self, index: int, timed: bool) -> bool:
        """From the second check on, parameters are moved a little."""
        if timed or index != 1 or self.protocol is Protocol.KERNELBENCH or not self.reference.weights():
            return False
        self.reference.set_weights(derived_seed(self.seed, "weights", 0))
        self.verifier.place_weights(self.reference.weights())
        return True

    def fresh_inputs(self, variant: str, seed: int) -> list[Any]:
        """Inputs of the layout's shapes, with its scalars. Raises ExpectedFailure when shapes change."""
        with operator_stage("get_inputs()", self.source.filename):
            drawn = self.reference.draw_inputs(seed)
            if [shape_of(value) for value in drawn] != [shape_of(value) for value in self.inputs]:
                raise UnusableInput("get_inputs() returns other shapes from call to call.")
        for index, scalar in self.scalars.items():
            drawn[index] = scalar
        return vary(drawn, self.plain, variant, seed)

    def compute_expected(self) -> None:
        """Run both references for the prepared inputs and note PyTorch's own error."""
        expected = self.current()
        with operator_stage("Model.forward()", self.source.filename):
            expected.eager = self.reference.eager(expected.inputs, expected.seed)
        if self.protocol is Protocol.STRICT:
            expected.precise = self.reference.precise(expected.inputs, expected.seed)
        errors = expected.own_errors()
        known = self.own_errors.get(expected.variant)
        if known is not None:
            errors = [old.worst(new) for old, new in zip(known, errors, strict=True)]
        self.own_errors[expected.variant] = errors

    def current(self) -> Expected:
        if self.expected is None:
            raise RuntimeError("prepare comes first")
        return self.expected

    def drop_memory(self) -> None:
        """Give back what a measurement left behind."""
        gc.collect()
        if self.device.kind == "cuda":
            torch.cuda.empty_cache()

    def snapshot_inputs(self) -> list[Any]:
        """Copies of the first inputs."""
        return clone_all(self.inputs)


def spec_of(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and torch's dtype name."""
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}


def shape_of(value: Any) -> tuple[Any, ...]:
    """Shape and dtype of a tensor, the type of a scalar."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.dtype)
    return (type(value),)


def derived_seed(seed: int, purpose: str, index: int) -> int:
    """A 63-bit seed for one purpose."""
    return random.Random(f"{seed}/{purpose}/{index}").getrandbits(63)


def mostly_finite(output: torch.Tensor) -> bool:
    """Whether at least half of the elements are finite."""
    return bool(torch.isfinite(output).float().mean() >= 0.5) if output.numel() else True
