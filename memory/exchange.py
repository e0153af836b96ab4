"""A bank as a file in either form, within the size that an import accepts."""

from __future__ import annotations

from memory.bankerror import BankError
from memory.exporting import dump_bank, export_bank
from memory.limits import MAX_BANK_BYTES
from memory.markdown import write_markdown
from memory.models import Evidence, MemoryBank

FORMATS = ("json", "markdown")
SUFFIXES = {"json": "json", "markdown": "md"}
EVIDENCE_BYTES = 300  # a row takes more than this in either form


def bank_text(bank: MemoryBank, form: str = "json", *, evidence: bool = True) -> str:
    """The bank's file. Raises BankError where it would be larger than an import takes."""
    count = Evidence.objects.filter(bank=bank).count() if evidence else 0
    if count * EVIDENCE_BYTES > MAX_BANK_BYTES:
        raise _too_large(bank, count)
    document = export_bank(bank, evidence=evidence)
    text = write_markdown(document) if form == "markdown" else dump_bank(document)
    if len(text.encode()) > MAX_BANK_BYTES:
        raise _too_large(bank, count)
    return text


def _too_large(bank: MemoryBank, count: int) -> BankError:
    return BankError(
        f"The bank {bank.name!r} with its {count} evidence rows does not fit into a file of "
        f"{MAX_BANK_BYTES // 1024 // 1024} MiB; export it without evidence."
    )
