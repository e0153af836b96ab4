"""What the runner answers: compile a plan, bind it to the judge's memory, run one call."""

from __future__ import annotations

import dataclasses
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gpu_eval.busy import waited_us
from gpu_eval.child import ExpectedFailure
from gpu_eval.devices import (
    Buffer,
    CompileError,
    DeviceLost,
    DeviceUnavailable,
    Executor,
    LaunchError,
    Module,
    OutOfDeviceMemory,
    open_backend,
)
from gpu_eval.plans import Plan, PlanError, Program, TensorSpec, bind, parse_plan
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
        try:
            self.backend = open_backend(self.kind)
            self.unavailable = ""
            self.nothing = self.empty_executor()
        except DeviceUnavailable as error:
            self.unavailable = str(error)
        self.plan: Plan
        self.module: Module
        self.program: Program
        self.executor: Executor

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "hello": self.hello,
            "compile": self.compile,
            "bind": self.bind,
            "prepare": self.prepare,
            "run": self.run,
            "broken_guards": self.broken_guards,
            "empty_launch_us": self.empty_launch_us,
        }

    def hello(self) -> dict[str, Any]:
        if self.unavailable:
            raise ExpectedFailure("unavailable", self.unavailable)
        return {"versions": versions(self.kind), "python": platform.python_version()}

    def compile(self, plan: str, filename: str, library: str) -> dict[str, Any]:
        """Parse the plan and compile its kernels."""
        try:
            self.plan = parse_plan(plan, filename=filename, library=LibraryPolicy(library))
        except PlanError as error:
            raise rejected(error) from error
        if self.plan.language != self.kind:
            raise ExpectedFailure(
                "rejected",
                f'{filename}: the plan is written in "{self.plan.language}", the device is {self.kind}.',
            )
        result = self.backend.compile(self.plan.kernels, self.plan.launch_names)
        if isinstance(result, CompileError):
            raise ExpectedFailure("compile_error", result.message, log=result.log)
        self.module = result
        return {"hash": self.plan.hash, "log": result.log, "seconds": result.seconds}

    def bind(
        self, inputs: list[dict[str, Any]], params: dict[str, dict[str, Any]], outputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Fix shapes, tie the program to the judge's memory, run `prepare` once."""
        arguments = [entry["value"] if "value" in entry else spec_of(entry) for entry in inputs]
        try:
            self.program = bind(
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
        check_outputs(self.program, [spec_of(entry) for entry in outputs])
        with device_failures():
            self.executor = self.backend.executor(
                self.program, self.module, self.buffers(inputs, params, outputs)
            )
        return {
            "prepare_us": self.prepare(),
            "kernels": [dataclasses.asdict(report) for report in self.executor.kernel_reports()],
            "library_calls": self.program.library_calls,
            "launches": self.program.launch_count,
        }

    def buffers(
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
            return self.backend.time(self.executor.prepare).wall_us

    def run(self) -> dict[str, Any]:
        """One call. ``us`` is what counts: on CUDA the device's own time between two events around the work,
        elsewhere the wall clock between two full synchronises. A plan has no host code and no stream of its
        own, so nothing it does escapes the events; ``wall_us`` comes along for the evaluator to compare.

        An empty launch goes before it: threads or clocks that fell asleep since the last call are awake
        again, as they are for the reference, whose inputs were copied a moment before.
        """
        with device_failures():
            self.backend.time(self.nothing.run)
            waited = waited_us()
            elapsed = self.backend.time(self.executor.run)
            waited = waited_us() - waited
        us = elapsed.wall_us if elapsed.device_us is None else elapsed.device_us
        return {"us": us, "wall_us": elapsed.wall_us, "waited_us": waited}

    def broken_guards(self) -> list[str]:
        """Names of the plan's own tensors that a kernel wrote past."""
        with device_failures():
            return self.executor.broken_guards()

    def empty_launch_us(self) -> float:
        """The median time of a kernel that does nothing: what a launch costs."""
        times = [self.backend.time(self.nothing.run) for _ in range(EMPTY_CALLS)]
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
    text = str(error).strip() or type(error).__name__
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
