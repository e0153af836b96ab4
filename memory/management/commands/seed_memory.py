"""Import the seed bank unless it is there."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from memory.models import MemoryBank
from memory.seeding import SEED_NAME, ensure_seed_bank


class Command(BaseCommand):
    help = "Import the seed memory bank unless it is there already."

    def handle(self, *args: Any, **options: Any) -> None:
        there = MemoryBank.objects.filter(name=SEED_NAME).exists()
        bank = ensure_seed_bank()
        state = "already there" if there else "imported"
        self.stdout.write(f"{bank.name}: {state}, {bank.directions.count()} directions.")
