"""Run a plan on a backend with numpy in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_eval.devices import Buffer, DeviceBackend, Executor, Module
from gpu_eval.plans import Plan, Program, TensorSpec, bind, parse_plan

# One source for both languages: these words stand for the language's own.
_WORDS = {
    "cuda": {
        "KERNEL": 'extern "C" __global__',
        "GLOBAL": "",
        "INDEX": "(blockIdx.x * blockDim.x + threadIdx.x)",
    },
    "opencl": {"KERNEL": "__kernel", "GLOBAL": "__global", "INDEX": "get_global_id(0)", "long long": "long"},
}


def plan_for(kind: str, kernels: str, functions: str) -> Plan:
    """A plan in the backend's language; ``functions`` is the text of forward (and prepare)."""
    for word, meaning in _WORDS[kind].items():
        kernels = kernels.replace(word, meaning)
    return parse_plan(f'language = "{kind}"\nkernels = r"""\n{kernels}\n"""\n\n{functions}\n')


@dataclass
class Prepared:
    """A plan compiled, bound and tied to fresh memory that holds the given arrays."""

    backend: DeviceBackend
    program: Program
    executor: Executor
    buffers: dict[int, Buffer]

    def run(self) -> list[np.ndarray]:
        """Poison the outputs, run one call, read them."""
        for slot in self.program.output_slots:
            self.backend.write(self.buffers[slot], b"\xa5" * self.buffers[slot].nbytes)
        self.executor.run()
        self.executor.collect()
        self.backend.synchronise()
        return [self.output(index) for index in range(len(self.program.outputs))]

    def output(self, index: int) -> np.ndarray:
        view = self.program.outputs[index]
        content = self.backend.read(self.buffers[view.slot])[: view.spec.nbytes]
        return np.frombuffer(content, view.dtype).reshape(view.shape)

    def set(self, slot: int, array: np.ndarray) -> None:
        self.backend.write(self.buffers[slot], np.ascontiguousarray(array).tobytes())


def spec_of(array: np.ndarray) -> TensorSpec:
    return TensorSpec(array.shape, str(array.dtype))


def compiled(backend: DeviceBackend, plan: Plan) -> Module:
    module = backend.compile(plan.kernels, plan.launch_names)
    assert isinstance(module, Module), module
    return module


def prepare(
    backend: DeviceBackend,
    plan: Plan,
    inputs: Sequence[np.ndarray],
    params: Mapping[str, np.ndarray] | None = None,
    share: Prepared | None = None,
) -> Prepared:
    """Compile, bind, allocate, fill, prepare."""
    params = params or {}
    program = bind(
        plan,
        [spec_of(array) for array in inputs],
        {name: spec_of(array) for name, array in params.items()},
        limits=backend.limits(),
        infer_library=backend.infer_library,
    )
    buffers = {slot.index: backend.alloc(slot.spec.nbytes) for slot in program.judge_slots()}
    module = compiled(backend, plan)
    executor = backend.executor(program, module, buffers, share.executor if share else None)
    ready = Prepared(backend, program, executor, buffers)
    for slot, array in zip(program.inputs, inputs, strict=True):
        assert slot is not None
        ready.set(slot, array)
    for name, array in params.items():
        ready.set(program.params[name], array)
    executor.prepare()
    return ready
