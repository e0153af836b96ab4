"""Write a bank as JSON or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.bankerror import BankError
from memory.exchange import FORMATS, bank_text
from memory.management.unusable import unusable
from memory.models import MemoryBank


class Command(BaseCommand):
    help = "Write a memory bank as JSON or Markdown to standard output or a file; memory_import reads both."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("bank", help="name or id of the bank")
        parser.add_argument("--out", type=Path, help="file to write instead of standard output")
        parser.add_argument("--format", choices=FORMATS, default="json", help="json (default) or markdown")
        parser.add_argument("--no-evidence", action="store_true", help="leave the evidence log out")

    def handle(self, *args: Any, **options: Any) -> None:
        bank = self._bank(options["bank"])
        try:
            text = bank_text(bank, options["format"], evidence=not options["no_evidence"])
        except BankError as error:
            unusable(self, str(error))
        if options["out"] is None:
            self.stdout.write(text, ending="")
            return
        try:
            options["out"].write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            unusable(self, f"Cannot write {options['out']}: {error.strerror}.")

    def _bank(self, wanted: str) -> MemoryBank:
        bank = MemoryBank.objects.filter(name=wanted).first()
        if bank is None and wanted.isdecimal() and len(wanted) < 19:
            bank = MemoryBank.objects.filter(pk=int(wanted)).first()
        if bank is None:
            names = ", ".join(MemoryBank.objects.values_list("name", flat=True)) or "none"
            unusable(self, f"There is no memory bank {wanted!r}; there are: {names}.")
        return bank
