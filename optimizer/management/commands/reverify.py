"""Judge stored results again with the present checker, here and now, and say what differs."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpu_eval.results import CHECKER_VERSION, dump_json
from htam_site import figures
from optimizer.api.verification import with_both_verdicts
from optimizer.loop.evaluation import LiveEvaluator
from optimizer.models import Reverification, Run
from optimizer.serializers import ReverificationSerializer
from optimizer.services import verification
from optimizer.services.operators import Refused

UNUSABLE = 2


class Command(BaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--run", type=int, metavar="ID", help="every correct result of one run")
        what.add_argument(
            "--winners", action="store_true", help="the best result of every run that an older checker judged"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        asked = self.asked(options)
        self.say(f"Checker {CHECKER_VERSION} judges {len(asked)} results again.")
        with LiveEvaluator() as evaluator:
            for row in asked:
                if claimed := verification.claim(row.pk):
                    verification.judge(claimed, evaluator, lambda phase: None)
                    self.say(self.line(claimed.pk))
        self.report([row.pk for row in asked], options["json"])

    def asked(self, options: dict[str, Any]) -> list[Reverification]:
        if options["winners"]:
            return verification.ask_winners(queue=False)
        run = Run.objects.filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(f"There is no run {options['run']}.", returncode=UNUSABLE)
        try:
            return verification.ask_run(run, queue=False)
        except Refused as error:
            raise CommandError(str(error), returncode=UNUSABLE) from None

    def line(self, pk: int) -> str:
        row = self.rows([pk])[0]
        before, after = (
            figures.ratio(verdict["speedup"]) if verdict else figures.DASH
            for verdict in (row["before"], row["after"])
        )
        place = f"run {row['run']}, step {row['step_index']} ({row['operator']['name']})"
        return f"{place}: {before} then, {after} now. {row['sentence']}"

    def rows(self, pks: list[int]) -> list[dict[str, Any]]:
        rows = with_both_verdicts(Reverification.objects.filter(pk__in=pks).order_by("pk"))
        return [dict(row) for row in ReverificationSerializer(rows, many=True).data]

    def report(self, pks: list[int], as_json: bool) -> None:
        rows = self.rows(pks)
        counts = {
            "confirmed": sum(row["finding"] == "confirmed" for row in rows),
            "refuted": sum(row["finding"] == "refuted" for row in rows),
            "not_judged": sum(not row["finding"] for row in rows),
        }
        if as_json:
            result = {"checker": CHECKER_VERSION, **counts, "results": rows}
            self.stdout.write(dump_json(json.loads(json.dumps(result, default=str))))
            return
        self.stdout.write(
            f"{len(rows)} judged again: {counts['confirmed']} confirmed, {counts['refuted']} no longer correct, "
            f"{counts['not_judged']} could not be judged."
        )

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
