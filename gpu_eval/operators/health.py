"""The health report of an operator: its needs, PyTorch's times, the gates that may block a run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gpu_eval.results import DeviceFacts, refuse_non_finite


@dataclass(frozen=True)
class Gate:
    """One question about the operator. ``passed``: nothing is wrong; the sentence says why or why not. One
    that fails and ``blocks`` stops runs, the others are notes."""

    name: str
    passed: bool
    sentence: str
    blocks: bool = True


@dataclass(frozen=True)
class Health:
    """What inspecting an operator on one device showed. Times are medians in microseconds, sizes bytes.

    ``floor_us`` is the roofline floor; ``launch_distance`` is eager time over the time of an empty launch;
    ``compile_us`` is `torch.compile`'s time, None with the reason in ``compile_note``.
    """

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    params_count: int
    params_bytes: int
    flops: int
    bytes: int
    floor_us: float | None
    eager_us: float
    compile_us: float | None
    compile_note: str
    launch_distance: float | None
    memory_bytes: int
    device: DeviceFacts
    preset: str
    precision: str
    gates: list[Gate] = field(default_factory=list)
    blocked: bool = False
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON types. Raises ValueError on a non-finite number."""
        data = dataclasses.asdict(self)
        refuse_non_finite(data)
        return data


@dataclass(frozen=True)
class OperatorReport:
    """A health report and the captured graph, or the reason why there is none."""

    health: dict[str, Any]
    graph: dict[str, Any] | None
    graph_reason: str


def gate_sentences(failed: list[Gate]) -> str:
    """The failed gates as one sentence; empty when all passed."""
    return " ".join(gate.sentence for gate in failed)
