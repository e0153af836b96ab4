"""Write a bank as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.exporting import dump_bank, export_bank
from memory.management.unusable import unusable
from memory.models import MemoryBank


class Command(BaseCommand):
    help = "Write a memory bank as JSON to standard output or a file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("bank", help="name or id of the bank")
        parser.add_argument("--out", type=Path, help="file to write instead of standard output")
        parser.add_argument("--no-evidence", action="store_true", help="leave the evidence log out")

    def handle(self, *args: Any, **options: Any) -> None:
        bank = self._bank(options["bank"])
        text = dump_bank(export_bank(bank, evidence=not options["no_evidence"]))
        if options["out"] is None:
            self.stdout.write(text, ending="")
            return
        try:
            options["out"].write_text(text, encoding="utf-8")
        except OSError as error:
            unusable(self, f"Cannot write {options['out']}: {error.strerror}.")

    def _bank(self, wanted: str) -> MemoryBank:
        bank = MemoryBank.objects.filter(name=wanted).first()
        if bank is None and wanted.isdecimal():
            bank = MemoryBank.objects.filter(pk=int(wanted)).first()
        if bank is None:
            names = ", ".join(MemoryBank.objects.values_list("name", flat=True)) or "none"
            unusable(self, f"There is no memory bank {wanted!r}; there are: {names}.")
        return bank
