"""The evaluation of a foreign module: that of a plan, and PyTorch timed again once the module is gone."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics

from gpu_eval import timing
from gpu_eval.candidates import CandidateFailure
from gpu_eval.foreign.process import ForeignProcess
from gpu_eval.pairs import Pair
from gpu_eval.results import Check
from gpu_eval.trial import HIDDEN_SHARE, HIDDEN_US, Trial

ALONE_CALLS = 15
# PyTorch's time beside the module over its time alone, by quartiles that lie apart, and by how much at least:
# caches and cores are colder beside another process, which shows in calls of a few microseconds.
SLOWED, SLOWED_US = 1.25, 50.0


class ForeignTrial(Trial):
    """Used once, for one `ForeignProcess`."""

    candidate: ForeignProcess
    alone_share = 1.0  # PyTorch's time alone as a share of its time beside the module, 1 at most

    @property
    def counted(self) -> list[Pair]:
        """The pairs, PyTorch's times as they would be alone: nothing is gained by holding it up a little."""
        return [
            dataclasses.replace(pair, baseline_us=pair.baseline_us * self.alone_share)
            for pair in super().counted
        ]

    def time(self) -> None:
        """As for plans; then what torch does for the module, and what PyTorch takes without it."""
        super().time()
        self.note_operations()
        self.candidate.kill()
        self.time_alone()

    def note_operations(self) -> None:
        """Torch's operations in one call, for information. A module that fails now has shown enough before."""
        with contextlib.suppress(CandidateFailure):
            self.ask("prepare", index=0, lane=0)
            names = self.candidate.operations(0, self.left(self.bench.limits.run_s))
            self.bound = dataclasses.replace(self.bound, library_calls=names)

    def time_alone(self) -> None:
        """PyTorch's calls must not have been slower beside the module, by which it would look faster.

        What it left running on the device, where stopping its threads stops nothing, ended with its process.
        """
        alone = []
        for index in range(ALONE_CALLS):
            lane = index % self.bench.lanes
            self.ask("prepare", index=len(self.pairs) + index, lane=lane, timed=True)
            alone.append(self.baseline(lane).us)
        beside = [pair.baseline_us for pair in self.counted]
        fast_beside, slow_alone = timing.quantile(beside, 0.25), timing.quantile(alone[2:], 0.75)
        beside_us, alone_us = statistics.median(beside), statistics.median(alone[2:])
        self.alone_share = min(1.0, alone_us / beside_us)
        numbers: dict[str, float | int | str | None] = {
            "beside_us": round(beside_us, 2),
            "alone_us": round(alone_us, 2),
        }
        slowed = fast_beside > SLOWED * slow_alone and fast_beside - slow_alone > SLOWED_US
        detail = "PyTorch is as fast beside the module as without it, and counts with the smaller time"
        if slowed:
            detail = "PyTorch is slower beside the module than without it: something was left running"
        self.checks.append(Check("device left alone", not slowed, detail, numbers))

    def check_guards(self) -> None:
        """The judge's guards are part of every verification; there are no others."""

    def hidden_work(self, median_us: float) -> str:
        """A sentence when PyTorch was held up. What the process's clock leaves out is no reason: it counts all
        the same, by the evaluator's clock, and on a busy machine an honest process leaves out its waking up."""
        hidden = statistics.median(self.hidden_us)
        late = statistics.median(self.candidate.late_us)
        agree = hidden <= HIDDEN_SHARE * median_us + HIDDEN_US and late <= HIDDEN_SHARE * median_us
        numbers: dict[str, float | int | str | None] = {
            "unclaimed_us": round(hidden, 1),
            "late_us": round(late, 1),
            "empty_round_trip_us": round(self.candidate.empty.round_trip_us, 1),
        }
        detail = ""
        if not agree:
            detail = (
                f"a call takes {median_us:.0f} us by the evaluator's clock, which counts; the module's process "
                f"says nothing about {max(hidden, late):.0f} us of it"
            )
        self.checks.append(Check("evaluator's clock", True, detail, numbers))
        slowed = [check for check in self.checks if check.name == "device left alone" and not check.passed]
        return f"{slowed[0].detail}." if slowed else ""
