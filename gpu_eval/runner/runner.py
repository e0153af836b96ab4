"""What the runner answers: load a plan, bind it to the memory of the judge's lanes, run one call."""

from __future__ import annotations

import dataclasses
import importlib
import math
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu_eval.busy import waited_us
from gpu_eval.child import ExpectedFailure
from gpu_eval.compiling.messages import code_of
from gpu_eval.devices import (
    Buffer,
    CompiledCode,
    CompileError,
    DeviceLost,
    DeviceUnavailable,
    Executor,
    LaunchError,
    Module,
    OutOfDeviceMemory,
    Tf32,
    open_backend,
    torch_library,
)
from gpu_eval.plans import Plan, PlanError, Program, TensorSpec, bind, parse_plan
from gpu_eval.plans.program import Launch
from gpu_eval.results import LibraryPolicy

EMPTY_KERNELS = {
    "opencl": "__kernel void empty(__global float *y) {}",
    "cuda": 'extern "C" __global__ void empty(float *y) {}',
}
EMPTY_FORWARD = """
def forward(x, params):
    y = empty((1,))
    launch("empty", grid=1, block=1, args=[y])
    return y
"""
EMPTY_CALLS = 20


class Runner:
    """One candidate on one device. Methods are requests; their results are JSON."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.kind: str = settings["device"]
        if settings.get("torch"):
            importlib.import_module("torch")  # before the backend makes its context
        try:
            self.backend = open_backend(self.kind)
            self.unavailable = ""
            self.nothing = self.empty_executor()
            if settings.get("torch"):
                torch_library.warm_up("cuda" if self.kind == "cuda" else "cpu")
        except DeviceUnavailable as error:
            self.unavailable = str(error)
        self.plan: Plan
        self.code: CompiledCode | None = None
        self.module: Module
        self.program: Program
        self.buffers: list[dict[int, Buffer]] = []  # by lane
        self.executors: list[Executor] = []  # by lane
        self.lead_us = math.inf  # the host's clock around a launch of nothing, at least
        self.partial: dict[tuple[str, ...], Executor] = {}

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "hello": self.hello,
            "load": self.load,
            "reload": self.reload,
            "bind": self.bind,
            "prepare": self.prepare,
            "run": self.run,
            "run_nothing": self.run_nothing,
            "collect": self.collect,
            "run_without": self.run_without,
            "poison": self.poison,
            "broken_guards": self.broken_guards,
            "empty_launch_us": self.empty_launch_us,
        }

    def hello(self) -> dict[str, Any]:
        if self.unavailable:
            raise ExpectedFailure("unavailable", self.unavailable)
        return {"versions": versions(self.kind), "python": platform.python_version()}

    def load(
        self, plan: str, filename: str, library: str, code: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Parse the plan and load its kernels: ``code`` as a compiler process made it, or compiled here where
        the device's code is made for the process that runs it.
        """
        try:
            self.plan = parse_plan(plan, filename=filename, library=LibraryPolicy(library))
        except PlanError as error:
            raise rejected(error) from error
        if self.plan.language != self.kind:
            raise ExpectedFailure(
                "rejected",
                f'{filename}: the plan is written in "{self.plan.language}", the device is {self.kind}.',
            )
        self.code = None if code is None else code_of(code)
        self.load_module()
        return {"hash": self.plan.hash, "log": self.module.log, "compiler": self.backend.compiler()}

    def reload(self) -> None:
        """The kernels afresh, their variables as at the start. What was bound is gone."""
        self.executors, self.buffers, self.partial = [], [], {}
        self.load_module()

    def load_module(self) -> None:
        """The module of the plan's kernels."""
        with device_failures():
            if self.code is None:
                result = self.backend.compile(self.plan.kernels, self.plan.launch_names)
            else:
                result = self.backend.load(self.code)
        if isinstance(result, CompileError):
            raise ExpectedFailure("compile_error", result.message, log=result.log)
        self.module = result

    def bind(
        self,
        lanes: list[dict[str, list[dict[str, Any]]]],
        params: dict[str, dict[str, Any]],
        tf32: list[bool],
    ) -> dict[str, Any]:
        """Fix shapes, tie the program to every lane's memory, run `prepare` once.

        ``tf32``: whether library calls may round to TF32 in matrix products and in convolutions.
        """
        self.program = self.bound_program(lanes[0]["inputs"], params)
        check_outputs(self.program, [spec_of(entry) for entry in lanes[0]["outputs"]])
        self.backend.library_tf32 = Tf32(*tf32)
        with device_failures():
            self.buffers = [self.open_buffers(lane["inputs"], params, lane["outputs"]) for lane in lanes]
            self.executors = []
            for buffers in self.buffers:
                share = self.executors[0] if self.executors else None
                self.executors.append(self.backend.executor(self.program, self.module, buffers, share))
            reports = self.executors[0].kernel_reports()
        return {
            "prepare_us": self.prepare(),
            "kernels": [dataclasses.asdict(report) for report in reports],
            "library_calls": self.program.library_calls,
            "launches": self.program.launch_count,
            "collects": self.executors[0].collects,
        }

    def bound_program(self, inputs: list[dict[str, Any]], params: dict[str, dict[str, Any]]) -> Program:
        """The plan for these shapes and scalars."""
        arguments = [entry["value"] if "value" in entry else spec_of(entry) for entry in inputs]
        try:
            return bind(
                self.plan,
                arguments,
                {name: spec_of(entry) for name, entry in params.items()},
                limits=self.backend.limits(),
                infer_library=self.backend.infer_library,
            )
        except PlanError as error:
            raise rejected(error) from error
        except LaunchError as error:
            raise ExpectedFailure("launch_error", sentence(error)) from error

    def open_buffers(
        self, inputs: list[dict[str, Any]], params: dict[str, dict[str, Any]], outputs: list[dict[str, Any]]
    ) -> dict[int, Buffer]:
        """The judge's memory for every slot that the judge owns."""
        opened: dict[int, Buffer] = {}
        for slot, entry in zip(self.program.inputs, inputs, strict=True):
            if slot is not None:
                opened[slot] = self.backend.from_exchange(entry["handle"])
        for name, slot in self.program.params.items():
            opened[slot] = self.backend.from_exchange(params[name]["handle"])
        for slot, entry in zip(self.program.output_slots, outputs, strict=True):
            opened[slot] = self.backend.from_exchange(entry["handle"])
        return opened

    def prepare(self) -> float:
        """Run the plan's `prepare` for the weights now in memory; microseconds."""
        with device_failures():
            return self.backend.time(self.executors[0].prepare).wall_us

    def run(self, lane: int) -> dict[str, Any]:
        """One call on a lane. ``us`` is what counts: on CUDA the device's own time between two events around
        the work, elsewhere the wall clock between two full synchronises. ``wall_us`` comes along for the
        evaluator to compare, ``lead_us`` is what the wall clock shows for a launch of nothing.

        An empty launch goes before it: threads or clocks that fell asleep since the last call are awake
        again, as they are for the reference, whose inputs were copied a moment before.
        """
        return self.timed(self.executors[lane])

    def run_nothing(self) -> dict[str, Any]:
        """As `run`, of an empty kernel: what a request costs beside its kernels."""
        return self.timed(self.nothing)

    def timed(self, executor: Executor) -> dict[str, Any]:
        """One call of ``executor``; see `run`."""
        with device_failures():
            nothing = self.backend.time(self.nothing.run, lead_in=True)
            self.lead_us = min(self.lead_us, nothing.wall_us)
            waited = waited_us()
            elapsed = self.backend.time(executor.run, lead_in=True)
            waited = waited_us() - waited
        us = elapsed.wall_us if elapsed.device_us is None else elapsed.device_us
        lead = 0.0 if elapsed.device_us is None else self.lead_us
        return {"us": us, "wall_us": elapsed.wall_us, "lead_us": lead, "waited_us": waited}

    def collect(self, lane: int) -> None:
        """Put what library calls left elsewhere into the lane's outputs."""
        with device_failures():
            self.executors[lane].collect()

    def run_without(self, lane: int, kernels: list[str]) -> None:
        """One call that leaves out the launches of ``kernels``."""
        key = (str(lane), *kernels)
        with device_failures():
            if key not in self.partial:
                self.partial[key] = self.backend.executor(
                    without(self.program, kernels), self.module, self.buffers[lane], self.executors[0]
                )
            self.executors[0].poison()
            self.backend.time(self.partial[key].run)
            self.partial[key].collect()

    def poison(self) -> None:
        """Make the plan's temporaries NaN: a kernel that reads what nothing wrote then shows."""
        with device_failures():
            self.executors[0].poison()

    def broken_guards(self) -> list[str]:
        """Names of the plan's own tensors that a kernel wrote past."""
        with device_failures():
            return self.executors[0].broken_guards()

    def empty_launch_us(self) -> float:
        """The median time of a kernel that does nothing: what a launch costs."""
        times = [self.backend.time(self.nothing.run, lead_in=True) for _ in range(EMPTY_CALLS)]
        return statistics.median(t.wall_us if t.device_us is None else t.device_us for t in times)

    def empty_executor(self) -> Executor:
        """A program that launches one kernel that does nothing."""
        text = f"language = {self.kind!r}\nkernels = {EMPTY_KERNELS[self.kind]!r}\n{EMPTY_FORWARD}"
        plan = parse_plan(text)
        module = self.backend.compile(plan.kernels, plan.launch_names)
        if isinstance(module, CompileError):
            raise RuntimeError(f"the empty kernel does not compile: {module.message}")
        program = bind(plan, [TensorSpec((1,))], {}, limits=self.backend.limits())
        buffers = {slot.index: self.backend.alloc(slot.spec.nbytes) for slot in program.judge_slots()}
        executor = self.backend.executor(program, module, buffers)
        self.backend.time(executor.run)
        return executor


def without(program: Program, kernels: list[str]) -> Program:
    """The same program with the launches of ``kernels`` left out."""
    left = tuple(step for step in program.steps if not (isinstance(step, Launch) and step.kernel in kernels))
    return dataclasses.replace(program, steps=left)


def versions(kind: str) -> dict[str, str]:
    """Versions of the device library."""
    if kind == "cuda":
        import pycuda
        import pycuda.driver as driver

        major, minor, patch = driver.get_version()
        return {"pycuda": pycuda.VERSION_TEXT, "cuda": f"{major}.{minor}.{patch}"}
    import pyopencl

    return {"pyopencl": pyopencl.VERSION_TEXT}


def spec_of(entry: dict[str, Any]) -> TensorSpec:
    """A layout entry's shape and dtype."""
    return TensorSpec(tuple(entry["shape"]), entry["dtype"])


def check_outputs(program: Program, expected: list[TensorSpec]) -> None:
    """Raise ExpectedFailure ("wrong") unless the plan returns tensors of the operator's shapes and dtypes."""
    if len(program.outputs) != len(expected):
        raise ExpectedFailure(
            "wrong", f"The plan returns {len(program.outputs)} tensors, the operator returns {len(expected)}."
        )
    for index, (view, spec) in enumerate(zip(program.outputs, expected, strict=True)):
        name = "The output" if len(expected) == 1 else f"Output {index}"
        if view.shape != spec.shape:
            raise ExpectedFailure(
                "wrong", f"{name} has shape {list(view.shape)}, expected {list(spec.shape)}."
            )
        if view.dtype != spec.dtype:
            raise ExpectedFailure("wrong", f"{name} is {view.dtype}, expected {spec.dtype}.")


@contextmanager
def device_failures() -> Iterator[None]:
    """Turn the backend's exceptions into answers."""
    try:
        yield
    except LaunchError as error:
        raise ExpectedFailure("launch_error", sentence(error)) from error
    except OutOfDeviceMemory as error:
        raise ExpectedFailure("out_of_memory", sentence(error)) from error
    except DeviceLost as error:
        raise ExpectedFailure("crashed", sentence(error)) from error


def rejected(error: PlanError) -> ExpectedFailure:
    """A refused plan: the sentence starts with file, line and column."""
    return ExpectedFailure("rejected", error.describe(), line=error.line, column=error.column)


def sentence(error: Exception) -> str:
    """The message with a capital and a full stop."""
    return sentence_of(str(error).strip() or type(error).__name__)


def sentence_of(text: str) -> str:
    """A capital at the start, a full stop at the end."""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
