"""What the judge answers: load the operator, prepare calls, time PyTorch, verify outputs."""

from __future__ import annotations

import gc
import platform
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from gpu_eval.busy import waited_us
from gpu_eval.child import ExpectedFailure
from gpu_eval.errors import UnusableInput
from gpu_eval.judge.arena import Arena, CudaArena, HostArena, lay_out
from gpu_eval.judge.compare import Rounding
from gpu_eval.judge.cost import CostCounter, minimal_bytes
from gpu_eval.judge.device import Timed, TorchDevice
from gpu_eval.judge.errors import ErrorProfile
from gpu_eval.judge.inputs import OWN, Distributions, Schedule, schedule
from gpu_eval.judge.reference import Reference, clone_all
from gpu_eval.judge.stages import operator_stage
from gpu_eval.judge.structure import structures
from gpu_eval.judge.verdicts import Expected, Lane, Verifier, same_bits
from gpu_eval.operators.loading import load_module
from gpu_eval.operators.source import OperatorSource, parse_operator
from gpu_eval.results import Precision, Protocol

MIN_ROUNDS, DEFAULT_ROUNDS = 2, 5


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
        self.inputs: list[Any] = []
        self.scalars: dict[int, Any] = {}
        self.other_inputs: list[Any] = []
        self.distributions = Distributions([])
        self.schedule: Schedule = schedule([], MIN_ROUNDS, 0)
        self.verifier: Verifier
        self.cost = CostCounter()
        self.input_bytes = 0
        self.expected: Expected | None = None
        self.own_errors: dict[str, list[ErrorProfile]] = {}
        self.seed = 0
        self.in_place = False
        self.recent_outputs: deque[list[torch.Tensor]] = deque(maxlen=1)
        self.move_weights = True
        self.compiled: Callable[..., Any] | None = None

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        from gpu_eval.foreign import judge as foreign
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
            "init_inputs": lambda **params: foreign.init_inputs(self, **params),
            "evict": lambda: foreign.evict(self),
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
            self.other_inputs = self.reference.draw_inputs(seed + 1)
        self.require_shapes(self.other_inputs)
        self.scalars = {i: v for i, v in enumerate(self.inputs) if not isinstance(v, torch.Tensor)}

    def layout(self, seed: int) -> dict[str, Any]:
        """Run forward once, count its work, make the arena. Answers where every tensor lies."""
        with operator_stage("Model.forward()", self.source.filename):
            outputs = self.reference.first(self.inputs, seed)
            self.count_cost(seed)
        weights = self.reference.weights()
        tensors = [value for value in self.inputs if isinstance(value, torch.Tensor)]
        lane_bytes = max(sum(map(nbytes, (*tensors, *outputs))), 1)
        lanes = max(1, min(self.device.lanes(lane_bytes), self.exchange_bytes // lane_bytes - 1))
        names = [*self.tensor_names(), *(f"output {index}" for index in range(len(outputs)))]
        self.arena = self.make_arena([*weights.values(), *[*tensors, *outputs] * lanes])
        regions = list(self.arena.regions)
        shared_weights = {name: self.claim(tensor, regions) for name, tensor in weights.items()}
        self.verifier = Verifier(
            arena=self.arena,
            protocol=self.protocol,
            rounding=Rounding(self.cost.depth, self.cost.products and self.reference.tf32),
            lanes=[self.claim_lane(tensors, outputs, regions) for _ in range(lanes)],
            weights=shared_weights,
            regions=[*weights, *names * lanes],
            run=self.reference.eager,
        )
        self.recent_outputs = deque(maxlen=lanes - 1)
        self.device.use_threads_for(self.arena.nbytes // 4 // lanes)
        self.in_place = not self.mutates_inputs(seed)
        self.reference.clones_inputs = not self.in_place
        self.find_distributions(outputs, seed)
        return self.describe_layout(tensors, weights, outputs)

    def count_cost(self, seed: int) -> None:
        """Run forward once more and count its work."""
        arguments = clone_all(self.inputs)
        with self.cost:
            self.cost.finish(self.reference.run_in_place(arguments, seed))
        used = [*arguments, *self.reference.weights().values()]
        self.input_bytes = self.cost.bytes_read([value for value in used if isinstance(value, torch.Tensor)])

    def claim_lane(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor], regions: list[Any]) -> Lane:
        """The arena's next regions as one lane."""
        shared = [self.claim(tensor, regions) for tensor in inputs]
        return Lane(
            inputs=dict(zip(self.tensor_names(), shared, strict=True)),
            outputs=[self.claim(tensor, regions) for tensor in outputs],
        )

    def mutates_inputs(self, seed: int) -> bool:
        """Whether forward changes its inputs, so that it must be given copies."""
        with operator_stage("Model.forward()", self.source.filename):
            arguments = clone_all(self.inputs)
            self.reference.run_in_place(arguments, seed)
        pairs = zip(self.inputs, arguments, strict=True)
        return any(isinstance(a, torch.Tensor) and not same_bits(a, b) for a, b in pairs)

    def describe_layout(
        self, tensors: list[torch.Tensor], weights: dict[str, torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        """Specs, handles and work as JSON."""
        handles = iter([self.arena.handle(region) for region in self.arena.regions])
        params = {name: {**spec_of(value), "handle": next(handles)} for name, value in weights.items()}
        lanes = [
            {
                "inputs": [self.describe_input(index, handles) for index in range(len(self.inputs))],
                "outputs": [{**spec_of(value), "handle": next(handles)} for value in outputs],
            }
            for _ in self.verifier.lanes
        ]
        return {
            "lanes": lanes,
            "params": params,
            "work": {
                "input_bytes": self.input_bytes,
                "output_bytes": minimal_bytes(outputs),
                "flops": self.cost.flops,
            },
            "depth": self.cost.depth,
            "exchange_bytes": self.arena.nbytes if isinstance(self.arena, HostArena) else 0,
        }

    def describe_input(self, index: int, handles: Iterator[dict[str, Any]]) -> dict[str, Any]:
        """One input of a lane: a tensor's spec and place, or a scalar's value."""
        name, value = self.input_names()[index], self.inputs[index]
        if isinstance(value, torch.Tensor):
            return {"name": name, **spec_of(value), "handle": next(handles)}
        return {"name": name, "value": value}

    def make_arena(self, tensors: list[torch.Tensor]) -> Arena:
        """Memory for all tensors. Raises ExpectedFailure ("operator") when it would be too large."""
        sizes = [nbytes(tensor) for tensor in tensors]
        total = lay_out(sizes)[1]
        if total > self.exchange_bytes:
            raise ExpectedFailure(
                "operator",
                f"{self.source.filename}: inputs, weights and outputs take {total / 1e9:.1f} GB, more than "
                f"the {self.exchange_bytes / 1e9:.1f} GB that an evaluation may use.",
            )
        if self.device.kind == "cuda":
            return CudaArena(sizes)
        return HostArena(sizes, self.exchange)

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

    def find_distributions(self, outputs: list[torch.Tensor], seed: int) -> None:
        """Find the distributions on which PyTorch itself runs, is finite and near its float64 answer."""
        self.distributions = Distributions(
            structures(self.inputs, self.other_inputs, unit=self.cost.unit_interval)
        )
        self.other_inputs = []
        if self.protocol is not Protocol.KERNELBENCH:
            self.distributions.search(
                self.inputs, lambda inputs: self.reference.bears(inputs, outputs, seed), seed
            )
            self.reference.try_moving(self.inputs, outputs, seed)

    # One candidate.

    def begin(self, seed: int, move_weights: bool = True, rounds: int = DEFAULT_ROUNDS) -> None:
        """Forget the last candidate: initial weights, guards armed, errors of PyTorch unknown."""
        self.seed = seed
        self.move_weights = move_weights
        self.schedule = schedule(list(self.distributions.usable), rounds, seed)
        self.own_errors = {}
        self.expected = None
        self.reference.set_weights(None)
        self.verifier.begin(self.reference.weights())

    def prepare(self, index: int, lane: int = 0, timed: bool = False) -> dict[str, Any]:
        """Fresh inputs in a lane, its outputs poisoned. Answers the distribution and new weights.

        Only now, right before the call: what an earlier call wrote into this lane is gone.
        """
        variant = self.schedule.timed(index) if timed else self.schedule.checked(index)
        call_seed = derived_seed(self.seed, "timed" if timed else "check", index)
        new_weights = self.change_weights(index, timed)
        inputs = self.fresh_inputs(variant, call_seed, raw=not timed and index == 0)
        self.expected = Expected(inputs=inputs, variant=variant, seed=call_seed)
        if variant not in self.own_errors or not timed:
            self.compute_expected()
        self.verifier.lanes[lane].place(inputs)
        self.device.synchronise()
        return {"variant": variant, "new_weights": new_weights}

    def repeat(self, lane: int) -> None:
        """Poison the outputs again and keep the inputs: the candidate must say the same twice."""
        self.verifier.remember(self.verifier.lanes[lane])
        self.verifier.lanes[lane].poison()
        self.device.synchronise()

    def baseline(self, lane: int, wall: bool = False) -> dict[str, float]:
        """One eager call on the lane's inputs: its microseconds, and how long it waited for a core.

        With ``wall`` the host's clock around a full synchronise counts, as for a candidate with host code.
        """
        expected = self.current()
        inputs = self.lane_inputs(expected, lane)
        waited = waited_us()
        timed, outputs = self.timed_call(inputs, expected.seed, wall)
        waited = waited_us() - waited
        self.device.settle()
        if not expected.eager:
            expected.eager = outputs
        self.recent_outputs.append(outputs)  # so that the next call's lie elsewhere, as the lanes do
        return {"us": timed.us, "wall_us": timed.wall_us, "waited_us": waited}

    def lane_inputs(self, expected: Expected, lane: int) -> list[Any]:
        """What forward is given under the clock: the memory that the candidate reads, or copies where it
        changes its inputs."""
        if not self.in_place:
            return clone_all(expected.inputs)
        shared = iter(self.verifier.lanes[lane].inputs.values())
        return [next(shared) if isinstance(value, torch.Tensor) else value for value in expected.inputs]

    def timed_call(self, inputs: list[Any], seed: int, wall: bool) -> tuple[Timed, list[torch.Tensor]]:
        """Eager PyTorch under the clock, on ``inputs`` themselves."""
        clock = self.device.wall_clock if wall else self.device.clock
        with operator_stage("Model.forward()", self.source.filename):
            return self.device.fastest(lambda: self.reference.timed(inputs, seed, clock))

    def verify(self, lane: int, repeated: bool = False) -> dict[str, Any]:
        """What is wrong with the outputs now in a lane; see `Verifier.verify`."""
        expected, at = self.current(), self.verifier.lanes[lane]
        if repeated:
            return self.verifier.verify_repeated(expected, at)
        errors = self.own_errors.get(expected.variant, self.own_errors.get(OWN))
        return self.verifier.verify(expected, errors, at)

    def change_weights(self, index: int, timed: bool) -> bool:
        """From the second check on, parameters are moved a little."""
        fixed = timed or index != 1 or self.protocol is Protocol.KERNELBENCH or not self.move_weights
        if fixed or not self.reference.movable:
            return False
        self.reference.set_weights(derived_seed(self.seed, "weights", 0))
        self.verifier.place_weights(self.reference.weights())
        return True

    def fresh_inputs(self, variant: str, seed: int, raw: bool = False) -> list[Any]:
        """Inputs of the layout's shapes, with its scalars; ``raw``: just as get_inputs() made them."""
        with operator_stage("get_inputs()", self.source.filename):
            drawn = self.reference.draw_inputs(seed)
        self.require_shapes(drawn)
        for index, scalar in self.scalars.items():
            drawn[index] = scalar
        if self.protocol is Protocol.KERNELBENCH:
            return drawn
        return self.distributions.make(drawn, variant, seed, raw)

    def require_shapes(self, drawn: list[Any]) -> None:
        """Raise ExpectedFailure ("operator") when ``drawn`` has other shapes than the first inputs."""
        with operator_stage("get_inputs()", self.source.filename):
            if [shape_of(value) for value in drawn] != [shape_of(value) for value in self.inputs]:
                raise UnusableInput("get_inputs() returns other shapes from call to call.")

    def compute_expected(self) -> None:
        """Run both references for the prepared inputs and note PyTorch's own error."""
        expected = self.current()
        with operator_stage("Model.forward()", self.source.filename):
            expected.eager = self.reference.eager(expected.inputs, expected.seed)
        if self.protocol is Protocol.STRICT:
            expected.precise = self.reference.precise(expected.inputs, expected.seed)
            if expected.precise is None:
                expected.near = self.reference.conditioned(expected.inputs, expected.seed)
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


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's elements, each once."""
    return tensor.numel() * tensor.element_size()


def shape_of(value: Any) -> tuple[Any, ...]:
    """Shape and dtype of a tensor, the type of a scalar."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.dtype)
    return (type(value),)


def derived_seed(seed: int, purpose: str, index: int) -> int:
    """A 63-bit seed for one purpose."""
    return random.Random(f"{seed}/{purpose}/{index}").getrandbits(63)
