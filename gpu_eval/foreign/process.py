"""A foreign module's process as the evaluator sees it: stopped except while it has something to do, timed by this
process's clock, believed in nothing.

A call is two requests, "run" and right behind it "collect"; the process is let go for the first and stopped when
the second is answered, before the judge looks. So a thread that goes on working afterwards has written nothing,
and what it does before the answers is on the clock. What both take for a call of nothing was measured in the same
process before the module was loaded.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_eval import tree
from gpu_eval.busy import waited_us_of
from gpu_eval.candidates import Bound, Call, CandidateFailure, CandidateProcess, Layout, Left, Loaded
from gpu_eval.devices.base import clean_log
from gpu_eval.errors import EvaluatorFault
from gpu_eval.exchange import Exchange
from gpu_eval.foreign.source import check_source
from gpu_eval.limits import Limits, Profile
from gpu_eval.process import Child, ChildDied, ChildFailure, ChildTimeout
from gpu_eval.results import Check, EvaluationPolicy, Precision, Protocol, Verdict

VERDICTS = {
    verdict.value: verdict
    for verdict in (
        Verdict.REJECTED,
        Verdict.COMPILE_ERROR,
        Verdict.LAUNCH_ERROR,
        Verdict.OUT_OF_MEMORY,
        Verdict.CRASHED,
        Verdict.WRONG,
    )
}
DTYPES = {Precision.FP16: "float16", Precision.BF16: "bfloat16"}
WARM_UPS, EMPTY_CALLS = 5, 21
COLLECT_FACTOR, COLLECT_US = 2.0, 200.0  # what copying the outputs may take beyond what it took for nothing
MESSAGE_CHARS = 1000
MOST_NAMES = 40


@dataclass(frozen=True)
class Empty:
    """What a call of nothing costs as seen from here, in microseconds."""

    round_trip_us: float
    collect_us: float
    waited_us: float


@dataclass(frozen=True)
class Seen:
    """One call: what the process claims, the time until it said so, from then until its outputs were there, and
    what its threads waited for a core meanwhile, waking up included."""

    claimed_us: float
    wall_us: float
    collect_us: float
    waited_us: float


class ForeignProcess(CandidateProcess):
    """One `ModelNew` file. ``init``: the judge's "init_inputs"; ``evict`` empties the device's cache, from outside."""

    untrusted = True
    clock = "wall clock"

    def __init__(
        self,
        device: str,
        exchange: Exchange | None,
        limits: Limits,
        policy: EvaluationPolicy,
        layout: Layout,
        init: dict[str, Any],
        filename: str,
        evict: Callable[[], None],
    ) -> None:
        self.limits = limits
        self.layout = layout
        self.init = init
        self.filename = filename
        self.evict = evict
        products = policy.precision is Precision.TF32
        settings = {
            "device": device,
            "dtype": DTYPES.get(policy.precision, ""),
            "tf32": [products, products or policy.protocol is Protocol.KERNELBENCH],
        }
        self.child = Child("gpu_eval.foreign", Profile.FOREIGN, limits, settings, exchange)
        self.child.send("hello")
        self.loaded = False
        self.empty = Empty(0.0, 0.0, 0.0)
        self._launch_us = 0.0
        self.late_us: list[float] = []

    def ready(self) -> dict[str, str]:
        try:
            versions = dict(self.child.receive("hello", self.limits.start_s)["versions"])
            self.child.call("attach", deadline_s=self.limits.start_s, layout=self.layout, init=self.init)
            self._launch_us = float(self.child.call("launch_us", deadline_s=self.limits.run_s))
            self.child.freeze()
            self.empty = self.measure_empty()
        except ChildFailure as error:
            raise EvaluatorFault(f"The device cannot be used: {error.message}") from error
        except (ChildTimeout, ChildDied) as error:
            output = self.child.output.text()[-500:]
            raise EvaluatorFault(f"The foreign module's process did not start: {error}. {output}") from error
        return versions

    def measure_empty(self) -> Empty:
        """Calls of nothing, before anything foreign is in the process."""
        seen = [self.seen_call(0, self.limits.run_s) for _ in range(WARM_UPS + EMPTY_CALLS)][WARM_UPS:]
        return Empty(
            statistics.median(call.wall_us - call.claimed_us for call in seen),
            statistics.median(call.collect_us for call in seen),
            statistics.median(call.waited_us for call in seen),
        )

    def launch_us(self) -> float:
        return self._launch_us

    def load(self, text: str, left: Left) -> Loaded:
        digest = check_source(text, self.filename)
        self.loaded = True
        limit = left(self.limits.compile_s)
        self.ask("load", "Loading the file", limit, source=text, filename=self.filename)
        return Loaded(digest)

    def bind(self, layout: Layout, left: Left) -> Bound:
        answer = self.ask("build", "ModelNew()", left(self.limits.bind_s))
        reason = short(answer.get("reason", "") if isinstance(answer, dict) else "")
        has_weights = bool(layout["params"])
        if not has_weights:
            detail = "the operator has none"
        elif reason:
            detail = f"ModelNew draws its own, under the operator's seed; others were not tried: {reason}"
        else:
            detail = "ModelNew was given the operator's, and others"
        checks = [Check("weights", True, detail)] if has_weights else []
        return Bound(prepare_us=0.0, checks=checks, takes_weights=has_weights and not reason)

    def prepare(self, deadline_s: float) -> float:
        return number(self.ask("weights", "The first call of ModelNew", deadline_s, lane=0))

    def run(self, lane: int, deadline_s: float) -> Call:
        """The larger of what the process claims and what passed here beyond an empty round trip, and whatever
        collecting the outputs took too long: work may hide there."""
        self.evict()
        try:
            seen = self.seen_call(lane, deadline_s)
        except (ChildTimeout, ChildDied, ChildFailure) as error:
            raise self.failure(error, "A call of ModelNew", deadline_s) from error
        passed_us = seen.wall_us - self.empty.round_trip_us
        allowed_us = COLLECT_FACTOR * self.empty.collect_us + COLLECT_US
        late_us = max(0.0, seen.collect_us - allowed_us)
        self.late_us.append(late_us)
        us = max(min(seen.claimed_us, seen.wall_us), passed_us) + late_us
        wall_us = seen.wall_us + seen.collect_us
        waited_us = max(0.0, seen.waited_us - self.empty.waited_us)
        return Call(us, wall_us, waited_us, hidden_us=max(0.0, passed_us - seen.claimed_us))

    def seen_call(self, lane: int, deadline_s: float) -> Seen:
        """One call as seen from here; the process stands still afterwards. Raises as `Child.receive` does."""
        waited = self.waited_us()
        start = time.monotonic_ns()
        self.child.send("run", lane=lane)
        claimed_us = number(self.child.receive("run", deadline_s))
        wall_us = (self.child.answered_ns - start) / 1e3
        self.child.send("collect", lane=lane)
        self.child.receive("collect", deadline_s)
        total_us = (time.monotonic_ns() - start) / 1e3
        self.child.freeze()
        return Seen(claimed_us, wall_us, total_us - wall_us, self.waited_us() - waited)

    def collect(self, lane: int, deadline_s: float) -> None:
        """Done by `run`."""

    def operations(self, lane: int, deadline_s: float) -> list[str]:
        """Torch's operations in one call, as the process says."""
        names = self.ask("operations", "A call of ModelNew", deadline_s, lane=lane)
        if not isinstance(names, list):
            return []
        return [short(name)[:60] for name in names[:MOST_NAMES]]

    def run_without(self, kernels: list[str], lane: int, deadline_s: float) -> None:
        raise NotImplementedError("a foreign module's launches cannot be left out")

    def poison(self, deadline_s: float) -> None:
        """What it allocates is its own business; the judge's outputs are poisoned by the judge."""

    def broken_guards(self, deadline_s: float) -> list[str]:
        """Its own tensors are its own business; the judge's have guards that the judge looks at."""
        return []

    def waited_us(self) -> float:
        """What all its threads have waited for a core, by the system's count."""
        return waited_us_of(tree.descendants(self.child.process.pid))

    def ask(self, method: str, what: str, deadline_s: float, **params: Any) -> Any:
        """One request, the process stopped afterwards; ``what`` names in a sentence what it does meanwhile."""
        try:
            answer = self.child.call(method, deadline_s=deadline_s, **params)
            self.child.freeze()
        except (ChildTimeout, ChildDied, ChildFailure) as error:
            raise self.failure(error, what, deadline_s) from error
        return answer

    def failure(
        self, error: ChildTimeout | ChildDied | ChildFailure, what: str, deadline_s: float
    ) -> CandidateFailure:
        """What became of a request. Nothing that the process says of itself makes it a fault of ours."""
        if isinstance(error, ChildTimeout):
            return CandidateFailure(Verdict.TIMEOUT, f"{what} did not finish within {deadline_s:g} seconds.")
        output = clean_log(self.child.output.text())
        if isinstance(error, ChildDied):
            verdict = Verdict.OUT_OF_MEMORY if error.cause == "memory" else Verdict.CRASHED
            return CandidateFailure(verdict, f"{what} took its process down ({error}).", output)
        log = clean_log(str(error.data.get("log") or error.data.get("detail") or output))
        verdict = VERDICTS.get(error.kind, Verdict.CRASHED)
        return CandidateFailure(verdict, short(error.message) or f"{what} failed.", log)

    def kill(self) -> None:
        self.child.kill()


def number(value: Any) -> float:
    """A claimed time; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if math.isfinite(value) and value > 0 else 0.0


def short(text: Any) -> str:
    """One line of a foreign text, cut."""
    return " ".join(clean_log(str(text)).split())[:MESSAGE_CHARS]
