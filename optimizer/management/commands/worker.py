"""Work runs and inspections off until Ctrl-C or SIGTERM, which end it at once; steps go on where they were
cut."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from optimizer.loop.worker import Worker


class Command(BaseCommand):
    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        Worker().run()
