"""How a command refuses its input."""

from __future__ import annotations

from typing import NoReturn

from django.core.management.base import BaseCommand


def unusable(command: BaseCommand, sentence: str) -> NoReturn:
    """Say why in one line on standard error and exit with status 2."""
    command.stderr.write(" ".join(sentence.split()))
    raise SystemExit(2)
