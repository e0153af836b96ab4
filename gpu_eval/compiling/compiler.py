"""What the compiler process answers: parse one plan, compile its kernels. It sees no device and no operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_eval.child import ExpectedFailure
from gpu_eval.compiling.messages import code_message
from gpu_eval.devices import CompileError, DeviceUnavailable
from gpu_eval.devices.cuda_compile import compile_code, compiler_version, toolkit
from gpu_eval.plans import Plan, PlanError, parse_plan
from gpu_eval.results import LibraryPolicy

LANGUAGE = "cuda"
NOTHING = 'extern "C" __global__ void nothing(float *y) {}'


class Compiler:
    """One plan, for one architecture. Methods are requests; their results are JSON."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.arch: str = settings["arch"]
        self.plan: Plan
        if compiler_version("nvrtc") != "nvrtc":  # its first compilation takes ten times as long as the next
            compile_code(NOTHING, ["nothing"], self.arch)

    def handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {"hello": self.hello, "parse": self.parse, "compile": self.compile}

    def hello(self) -> dict[str, Any]:
        return {"toolkit": toolkit()}

    def parse(self, plan: str, filename: str, library: str) -> dict[str, Any]:
        """Read a plan; what its compilation depends on."""
        try:
            self.plan = parse_plan(plan, filename=filename, library=LibraryPolicy(library))
        except PlanError as error:
            raise ExpectedFailure(
                "rejected", error.describe(), line=error.line, column=error.column
            ) from error
        if self.plan.language != LANGUAGE:
            raise ExpectedFailure(
                "rejected",
                f'{filename}: the plan is written in "{self.plan.language}", the device is {LANGUAGE}.',
            )
        return {"hash": self.plan.hash, "kernels": self.plan.kernels, "names": list(self.plan.launch_names)}

    def compile(self) -> dict[str, Any]:
        """Compile the plan read before. A failure of the source is an answer with ``error``."""
        try:
            result = compile_code(self.plan.kernels, self.plan.launch_names, self.arch)
        except DeviceUnavailable as error:
            raise ExpectedFailure("unavailable", str(error)) from error
        if isinstance(result, CompileError):
            return {"error": result.message, "log": result.log}
        return code_message(result)
