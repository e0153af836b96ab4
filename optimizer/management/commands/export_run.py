"""Write a run's bundle: the best verified kernel with everything needed to use and check it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from optimizer.exports.bundle import export_run
from optimizer.models import Run
from optimizer.services.operators import Refused


class Command(BaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("--out", type=Path, required=True, help="the zip file to write")

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.filter(pk=options["run"]).first()
        if run is None:
            raise CommandError(f"There is no run {options['run']}.", returncode=2)
        try:
            data = export_run(run)
            options["out"].write_bytes(data)
        except Refused as error:
            raise CommandError(str(error), returncode=2) from None
        except OSError as error:
            raise CommandError(
                f"{options['out']} cannot be written: {error.strerror}.", returncode=2
            ) from None
        self.stdout.write(f"{options['out']}: {len(data):,} bytes")
