"""Add the sample operators that are not there yet, and queue their inspection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from optimizer.models import Operator
from optimizer.services import operators
from optimizer.services.queue import enqueue_background

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


class Command(BaseCommand):
    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        added, changed = 0, 0
        for path in sorted(SAMPLES.glob("*.py")):
            if path.stem.startswith("_"):
                continue
            source = path.read_text(encoding="utf-8")
            known = Operator.objects.filter(name=path.stem).first()
            if known is None:
                operators.create_operator(name=path.stem, source=source, is_sample=True)
                added += 1
            elif known.is_sample and known.source != source and not known.runs.exists():
                operators.update_operator(known, source=source)
                changed += 1
        if added:
            enqueue_background()
        self.stdout.write(f"Sample operators: {added} added, {changed} updated, {self.total()} in all.")

    def total(self) -> int:
        return Operator.objects.filter(is_sample=True).count()
