"""Read a bank from JSON or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.importing import BankError, import_bank, parse_bank
from memory.limits import MAX_BANK_BYTES
from memory.management.unusable import unusable


class Command(BaseCommand):
    help = (
        "Import a memory bank from a JSON file (schema: memory/schema/bank-1.json) or from its Markdown form."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--name", help="name of the new bank, instead of the one in the file")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_BANK_BYTES + 1)
            bank = import_bank(parse_bank(raw), options["name"])
        except OSError as error:
            unusable(self, f"Cannot read {path}: {error.strerror}.")
        except BankError as error:
            unusable(self, f"{path}: {error}")
        self.stdout.write(
            f"Imported {bank.name!r}: {bank.directions.count()} directions, {bank.edges.count()} edges, "
            f"{bank.evidence.count()} evidence rows."
        )
