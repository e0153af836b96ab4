"""Bring the data up to date: migrations, roles, seed memory, samples. Safe to repeat; keeps what is there."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0, interactive=False)
        from memory.services import ensure_seed_bank

        ensure_seed_bank()
        call_command("load_samples", stdout=self.stdout)
