"""Optimise one operator in the foreground: the same engine and the same rows as a run launched in the
browser."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpu_eval.errors import EvaluatorFault, UnusableInput
from gpu_eval.results import dump_json
from optimizer.choices import AutoAccept, RunStatus
from optimizer.loop.evaluation import Evaluator, LiveEvaluator, NoDevice, NotRecorded, RecordedEvaluator
from optimizer.models import Run, RunEvent
from optimizer.services import foreground, replay, runs
from optimizer.services.operators import Refused

FAULT, UNUSABLE = 1, 2


class Command(BaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("operator", nargs="?", help="name, id or path of a .py file (not with --replay)")
        parser.add_argument("--steps", type=int, default=6)
        parser.add_argument("--method", default="htam")
        parser.add_argument("--proposer", default="recipes")
        parser.add_argument("--device", default="auto", choices=runs.DEVICES)
        parser.add_argument("--bank", help="name of the memory bank (default: the first)")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--repairs", type=int, default=2, help="repair tries a step")
        parser.add_argument("--policy", default="{}", help="selection policy settings as JSON")
        parser.add_argument(
            "--auto-accept",
            default=AutoAccept.OFF.value,
            choices=AutoAccept.values,
            help="which of its own proposals to the memory the run accepts (default: none)",
        )
        parser.add_argument(
            "--auto-accept-evidence", type=int, default=3, metavar="N", help="from N confirmed steps on"
        )
        parser.add_argument("--replay", type=int, metavar="RUN", help="take the verdicts of a stored run")
        parser.add_argument("--json", action="store_true", help="one JSON object on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = self.replay(options) if options["replay"] is not None else self.optimize(options)
        except (Refused, UnusableInput, NoDevice, NotRecorded) as error:
            raise CommandError(str(error), returncode=UNUSABLE) from None
        except EvaluatorFault as error:
            raise CommandError(f"The evaluator failed: {error}", returncode=FAULT) from None
        self.report(run, options["json"])
        if run.status == RunStatus.FAILED:
            raise CommandError(run.error, returncode=FAULT)

    def optimize(self, options: dict[str, Any]) -> Run:
        if not options["operator"]:
            raise Refused("Name an operator: its name, its id or the path of its file.")
        operator = foreground.find_operator(options["operator"])
        launch = {
            "bank": foreground.find_bank(options["bank"]),
            "method": options["method"],
            "proposer": options["proposer"],
            "device": options["device"],
            "steps_total": options["steps"],
            "repair_tries": options["repairs"],
            "seed": options["seed"],
            "policy": policy_of(options["policy"]),
            "auto_accept": options["auto_accept"],
            "auto_accept_evidence": options["auto_accept_evidence"],
        }
        with LiveEvaluator() as evaluator:
            self.say(f"Inspecting {operator.name}")
            foreground.ensure_inspected(operator, options["device"], evaluator)
            return self.work(operator, evaluator, launch)

    def replay(self, options: dict[str, Any]) -> Run:
        if not Run.objects.filter(pk=options["replay"]).exists():
            raise Refused(f"There is no run {options['replay']}.")
        evaluator = RecordedEvaluator(options["replay"])
        return self.work(evaluator.run.operator, evaluator, replay.launch_arguments(evaluator.run))

    def work(self, operator: Any, evaluator: Evaluator, launch: dict[str, Any]) -> Run:
        launched: list[Run] = []
        try:
            return foreground.optimize(operator, evaluator, self.follow, launched.append, **launch)
        except KeyboardInterrupt:
            if launched:
                runs.cancel(launched[0])
            raise CommandError("Cancelled.", returncode=FAULT) from None

    def follow(self, event: RunEvent) -> None:
        if line := line_for(event):
            self.say(line)

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def report(self, run: Run, as_json: bool) -> None:
        if as_json:
            self.stdout.write(dump_json(json.loads(json.dumps(foreground.result_of(run), default=str))))
            return
        if run.best_speedup is None:
            self.stdout.write(
                f"Run {run.pk} {run.status}: no kernel beat PyTorch eager with its interval clear of 1."
            )
            return
        self.stdout.write(
            f"Run {run.pk} {run.status}: best {run.best_speedup:.2f}x PyTorch eager "
            f"(95 % interval {run.best_speedup_low:.2f} to {run.best_speedup_high:.2f})."
        )


def policy_of(text: str) -> dict[str, Any]:
    try:
        policy = json.loads(text)
    except ValueError:
        raise Refused("--policy is not JSON.") from None
    if not isinstance(policy, dict):
        raise Refused("--policy must be a JSON object.")
    return policy


def line_for(event: RunEvent) -> str:
    """One line of progress; "" for events that say nothing new to a reader."""
    data = event.payload
    if event.kind == "step.direction":
        return f"step {data['index']}: {data['direction']['title']} ({data['probability']:.0%})"
    if event.kind == "step.strategy":
        return f"  {data['strategy']['title']}"
    if event.kind == "evaluation.done":
        speedup = f" {data['speedup']:.2f}x" if data["speedup"] is not None else ""
        message = f": {data['message']}" if data["message"] else ""
        return f"  {data['kind']}: {data['outcome']}{speedup}{message}"
    if event.kind == "step.repair":
        return f"  repair {data['attempt']} of {data['of']}"
    if event.kind == "run.best":
        return f"  new best {data['speedup']:.2f}x"
    return ""
