"""Say what this machine has and lacks, with the fix for each lack."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from htam_site.doctor import Finding, examine


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks = []  # a broken set-up is what it is for

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = examine()
        usable = all(finding.ok for finding in findings if finding.needed)
        if options["json"]:
            rows = [dataclasses.asdict(finding) for finding in findings]
            self.stdout.write(json.dumps({"usable": usable, "findings": rows}))
            return
        for finding in findings:
            self.stdout.write(_line(finding))
        self.stdout.write(
            "HTAM can run here." if usable else "HTAM cannot run here yet; fix what says 'lacks'."
        )


def _line(finding: Finding) -> str:
    state = "ok" if finding.ok else "lacks" if finding.needed else "without"
    line = f"{state:8} {finding.name:12} {finding.detail}"
    return f"{line}\n{'':22}{finding.fix}" if finding.fix else line
