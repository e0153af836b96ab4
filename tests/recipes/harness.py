"""Runs a plan on a device in this process, through the product's own parser, binder and backends."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from gpu_eval.capture import capture
from gpu_eval.devices import open_backend
from gpu_eval.devices.base import CompileError, DeviceBackend
from gpu_eval.plans import TensorSpec, bind, parse_plan


def captured(model: torch.nn.Module, inputs: Sequence[Any]) -> dict[str, Any]:
    """The graph of a module; fails the test with the reason where there is none."""
    graph = capture(model, inputs)
    assert isinstance(graph, dict), graph
    return graph


class PlanRunner:
    """One open backend."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.backend: DeviceBackend = open_backend(kind)
        self.device: dict[str, Any] = {"kind": kind, "compute_units": 132 if kind == "cuda" else 2}

    def facts(self) -> dict[str, Any]:
        return dataclasses.asdict(self.backend.facts())

    def executor(
        self, plan_text: str, model: torch.nn.Module, inputs: Sequence[Any]
    ) -> tuple[Any, list[Any]]:
        """Compile and bind; returns the executor and (buffer, spec) of each output."""
        plan = parse_plan(plan_text)
        module = self.backend.compile(plan.kernels, plan.launch_names)
        assert not isinstance(module, CompileError), f"{module.log}\n{plan_text}"
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        program = bind(
            plan,
            [_spec(value) if isinstance(value, torch.Tensor) else value for value in inputs],
            {name: _spec(value) for name, value in state.items()},
            limits=self.backend.limits(),
            infer_library=self.backend.infer_library,
        )
        given = dict(zip(program.inputs, inputs, strict=True)) | {
            slot: state[name] for name, slot in program.params.items()
        }
        buffers = {}
        for slot in program.judge_slots():
            buffer = self.backend.alloc(max(slot.spec.nbytes, 1))
            value = given.get(slot.index)
            content = _bytes(value) if value is not None else b"\xcb" * slot.spec.nbytes
            if content:
                self.backend.write(buffer, content)
            buffers[slot.index] = buffer
        executor = self.backend.executor(program, module, buffers)
        executor.prepare()
        return executor, [(buffers[view.slot], view) for view in program.outputs]

    def run(self, plan_text: str, model: torch.nn.Module, inputs: Sequence[Any]) -> list[torch.Tensor]:
        """Outputs of one call, as CPU tensors."""
        executor, outputs = self.executor(plan_text, model, inputs)
        executor.run()
        executor.collect()
        self.backend.synchronise()
        return [self._tensor(buffer, view) for buffer, view in outputs]

    def _tensor(self, buffer: Any, view: Any) -> torch.Tensor:
        dtype = getattr(torch, view.spec.dtype)
        count = int(torch.Size(view.spec.shape).numel())
        if count == 0:
            return torch.empty(view.spec.shape, dtype=dtype)
        raw = self.backend.read(buffer)
        return torch.frombuffer(bytearray(raw), dtype=dtype, count=count).reshape(view.spec.shape)


def _spec(value: torch.Tensor) -> TensorSpec:
    return TensorSpec(tuple(value.shape), str(value.dtype).removeprefix("torch."))


def _bytes(value: torch.Tensor) -> bytes:
    return value.detach().cpu().contiguous().numpy().tobytes()


def assert_close(got: Sequence[torch.Tensor], expected: Any, context: str = "", loose: bool = False) -> None:
    """Equal up to rounding, NaN and infinities in the same places. ``loose``: fast maths, single-pass moments."""
    wanted = expected if isinstance(expected, (tuple, list)) else [expected]
    assert len(got) == len(wanted), context
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.shape == theirs.shape, context
        assert ours.dtype == theirs.dtype, context
        tolerance = 2e-4 if loose else 2e-5
        torch.testing.assert_close(
            ours,
            theirs,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda text: f"{text}\n{context}",
        )
