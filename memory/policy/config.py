"""Settings of the selection policy. A run stores the ones it used, so that its choices can be replayed."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any


class PolicyError(ValueError):
    """A policy setting is unusable; the message names the field and the allowed range."""


@dataclass(frozen=True)
class PolicyConfig:
    """Settings of HTAM's transition-aware selection (arXiv 2605.29734), with their names in the formulas.

    score(h) = sum_i a_i U(g_{t-i} -> h) + beta V(h) + gamma match(h, s_t), and pi = softmax(score / tau).
    The ``use_*`` switches are the published ablations: each one removes exactly its term.

    Raises PolicyError when built with a value outside `BOUNDS`.
    """

    prefix_length: int = 3  # K: how many earlier directions the transition term looks back on
    decay: float = 0.5  # a_i is proportional to decay ** (i - 1)
    beta: float = 0.5  # weight of the direction's own value V
    gamma: float = 0.4  # weight of the match between triggers and state
    tau: float = 0.12  # softmax temperature
    n0: float = 4.0  # how many observations a prior is worth
    failure_utility: float = -0.5  # u of a step that reached no correct kernel
    use_hierarchy: bool = True  # off: strategies are retrieved flat, without directions or transitions
    use_local_memory: bool = True  # off: strategies lose their value and their conditions
    use_prefix: bool = True  # off: no transition term
    frozen: bool = False  # on: the run reads the bank and teaches it nothing
    same_kind_weight: float = 0.6  # evidence from another device of the same kind (cuda, opencl)
    other_kind_weight: float = 0.25  # evidence from another kind of device
    other_dtype_weight: float = 0.7
    other_family_weight: float = 0.4

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            _check_number(name, getattr(self, name), low, high)
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise PolicyError(f"{name} must be true or false.")
        if not isinstance(self.prefix_length, int):
            raise PolicyError("prefix_length must be a whole number between 1 and 12.")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PolicyConfig:
        """Missing fields take their defaults. Raises PolicyError on an unknown field or a bad value."""
        if not isinstance(data, dict):
            raise PolicyError("The policy must be a JSON object.")
        known = {item.name for item in dataclasses.fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise PolicyError(f"{unknown[0]!r} is no policy setting; known are {', '.join(sorted(known))}.")
        return cls(**data)


BOUNDS: dict[str, tuple[float, float]] = {
    "prefix_length": (1, 12),
    "decay": (0.01, 1.0),
    "beta": (0.0, 10.0),
    "gamma": (0.0, 10.0),
    "tau": (0.001, 10.0),
    "n0": (0.1, 1000.0),
    "failure_utility": (-1.0, 0.0),
    "same_kind_weight": (0.0, 1.0),
    "other_kind_weight": (0.0, 1.0),
    "other_dtype_weight": (0.0, 1.0),
    "other_family_weight": (0.0, 1.0),
}
SWITCHES = ("use_hierarchy", "use_local_memory", "use_prefix", "frozen")


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise PolicyError(f"{name} must be a number between {low:g} and {high:g}.")
    if not low <= value <= high:  # an integer of any size compares; only its text would overflow
        raise PolicyError(f"{name} must lie between {low:g} and {high:g}.")
