"""The seam between the evaluator and what it evaluates: a plan's runner or a foreign module's, one candidate in
one sandboxed process that is used once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpu_eval.results import Check, KernelReport, Verdict

Layout = dict[str, Any]  # the judge's answer to "layout": specs, and where every tensor of every lane lies
Left = Callable[[float], float]  # a limit in seconds to what is left of it within the whole evaluation's


class CandidateFailure(Exception):
    """The candidate ended with a verdict other than correct."""

    def __init__(self, verdict: Verdict, message: str, log: str = "") -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.log = log


@dataclass(frozen=True)
class Loaded:
    """A candidate whose code is compiled and in its process."""

    candidate_hash: str
    log: str = ""  # the compiler's words
    compiler: str = ""
    cached: bool = False
    device_globals: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bound:
    """A candidate tied to the judge's memory. ``checks`` are what binding found out."""

    prepare_us: float
    launches: int = 0
    kernels: list[KernelReport] = field(default_factory=list)
    library_calls: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    takes_weights: bool = True  # False: new weights cannot be handed to it, so that round is skipped


@dataclass(frozen=True)
class Call:
    """One call, in microseconds: ``us`` is what counts, ``wall_us`` the host's clock around it and all that had
    to come with it, ``waited_us`` what threads spent waiting for a core, ``hidden_us`` what the host's clock
    saw and neither ``us`` nor a launch of nothing explains."""

    us: float
    wall_us: float
    waited_us: float
    hidden_us: float = 0.0


class CandidateProcess(ABC):
    """One candidate from its text to its last timed call.

    Contract: what the candidate does wrong raises CandidateFailure with its verdict; what we do wrong raises
    EvaluatorFault. Order of calls: ``ready``, ``load``, ``bind``, then ``prepare``, ``run`` and ``collect`` in
    any number, ``kill`` once and always.
    """

    untrusted = False  # whether host code of the candidate's own runs
    clock = ""  # what `Call.us` is: "device events" or "wall clock"

    @abstractmethod
    def ready(self) -> dict[str, str]:
        """Wait until the process has its device; versions of what it uses."""

    @abstractmethod
    def launch_us(self) -> float:
        """Microseconds that an empty launch takes here."""

    @abstractmethod
    def load(self, text: str, left: Left) -> Loaded:
        """Compile the candidate's text and load it."""

    def reload(self, deadline_s: float) -> None:
        """Load the compiled code afresh, its variables as at the start; `bind` follows."""
        raise NotImplementedError

    @abstractmethod
    def bind(self, layout: Layout, left: Left) -> Bound:
        """Fix the shapes, tie the candidate to the memory of every lane, prepare it once."""

    @abstractmethod
    def prepare(self, deadline_s: float) -> float:
        """Do again what depends on the weights, which have changed; microseconds."""

    @abstractmethod
    def run(self, lane: int, deadline_s: float) -> Call:
        """One timed call on the inputs of ``lane``."""

    @abstractmethod
    def collect(self, lane: int, deadline_s: float) -> None:
        """Afterwards the outputs of the last call are in the lane's memory, and nothing of the candidate's goes
        on working until the next call."""

    @abstractmethod
    def run_without(self, kernels: list[str], lane: int, deadline_s: float) -> None:
        """One untimed call that leaves out the launches of ``kernels``. Only where `Bound.kernels` has any."""

    @abstractmethod
    def poison(self, deadline_s: float) -> None:
        """Make what the candidate's temporary tensors hold unusable: a call may not build on an earlier one."""

    @abstractmethod
    def broken_guards(self, deadline_s: float) -> list[str]:
        """Names of the candidate's own tensors that a kernel wrote past."""

    @abstractmethod
    def kill(self) -> None:
        """End the process and everything it started. Safe to call twice."""
