"""The bank that comes with the product: hand-written directions, strategies and transitions, no evidence."""

from __future__ import annotations

from pathlib import Path

from memory.importing import BankError, import_bank, parse_bank
from memory.models import MemoryBank

SEED_FILE = Path(__file__).parent / "seed" / "htam-seed.json"
SEED_NAME = "HTAM seed"


def ensure_seed_bank() -> MemoryBank:
    """The seed bank, imported on first use. One that people have edited since stays as they left it."""
    bank = MemoryBank.objects.filter(name=SEED_NAME).first()
    if bank is not None:
        return bank
    try:
        return import_bank(parse_bank(SEED_FILE.read_bytes()), SEED_NAME)
    except BankError:
        bank = MemoryBank.objects.filter(name=SEED_NAME).first()  # another process was quicker
        if bank is None:
            raise
        return bank
