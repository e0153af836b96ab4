"""Works a run off and kills this process with SIGKILL at one place: ``kill_at RUN STEP STAGE
before|inside|after``."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import django


def main() -> None:
    run_id, index, stage, when = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    django.setup()
    from optimizer.loop import engine, stages, transitions
    from tests.optimizer.support import FateEvaluator, ScriptedProposer

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def here(step: Any) -> bool:
        return step.index == index and step.stage == stage

    work, move = stages.STAGES[stage], transitions.move_step

    def around(ctx: Any) -> None:
        fatal = here(ctx.step)
        if fatal and when == "before":
            die()
        work(ctx)
        if fatal and when == "after":
            die()

    def inside(step: Any, to: Any, **fields: Any) -> None:
        move(step, to, **fields)
        if here(step) and when == "inside":
            die()  # rows are written, nothing is committed

    stages.STAGES[stage] = around
    transitions.move_step = inside
    engine.advance(run_id, FateEvaluator(), proposer=ScriptedProposer())


if __name__ == "__main__":
    main()
