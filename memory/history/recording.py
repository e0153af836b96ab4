"""The one way to change a bank: under a lock on it, with every touched part written to the ledger.

    with changing(bank, ChangeKind.EDITED, user=user, reason="clock was off") as recorder:
        recorder.edit(node, {"prior_utility": 0.3}, version=4)

All or nothing: an exception inside takes the parts and the ledger back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from memory.history.errors import Frozen, Refused, Stale
from memory.history.snapshots import FIELDS, Part, difference, kind_of, label_of, snapshot
from memory.models import Change, ChangeItem, ChangeKind, Evidence, MemoryBank

P = TypeVar("P", bound=Part)


def locked(bank: MemoryBank | int) -> MemoryBank:
    """The bank's row as stored, locked until the transaction ends: one writer a bank at a time.

    On SQLite transactions that write are one at a time anyway. Raises Refused where it is gone.
    """
    pk = bank if isinstance(bank, int) else bank.pk
    row = MemoryBank.objects.select_for_update().filter(pk=pk).first()
    if row is None:
        raise Refused("The bank is gone.")
    return row


class Recorder:
    """Changes parts and notes them as items of one `Change`, which is written with the first of them."""

    def __init__(self, bank: MemoryBank, kind: str, **why: Any) -> None:
        self.bank = bank
        self._kind = kind
        self._why = why
        self._change: Change | None = None
        self.notes: list[str] = []  # what could not be done in full, in sentences
        self.moved: set[int] = set()  # ids of strategies that went to another direction

    @property
    def change(self) -> Change:
        if self._change is None:
            seen = Evidence.objects.filter(bank=self.bank).aggregate(newest=Max("id"))["newest"] or 0
            self._change = Change.objects.create(
                bank=self.bank, kind=self._kind, evidence_seen=seen, **self._why
            )
        return self._change

    @property
    def made(self) -> Change | None:
        """The change, or None while nothing has changed."""
        return self._change

    def create(self, part: P) -> P:
        """Save a new part."""
        if not isinstance(part, MemoryBank):
            part.updated_by = self._why.get("user")
        part.save(force_insert=True)
        self._note(part, None, snapshot(part))
        return part

    def edit(self, part: P, values: Mapping[str, Any], version: int | None = None) -> P:
        """Write ``values`` (columns of `FIELDS`) and raise the version; ``part`` is reloaded.

        Raises Stale where ``version`` is given and the stored one is another. Values that are stored already
        change nothing, not even the version.
        """
        part.refresh_from_db()
        if version is not None and part.version != version:
            raise Stale(part, version)
        unknown = set(values) - set(FIELDS[kind_of(part)])
        assert not unknown, f"{sorted(unknown)} is not followed by the ledger"
        before, after = difference(snapshot(part), values)
        if not after:
            return part
        stamps: dict[str, Any] = {"version": part.version + 1}
        if not isinstance(part, MemoryBank):
            stamps |= {"updated_by": self._why.get("user"), "updated_at": timezone.now()}
        type(part)._default_manager.filter(pk=part.pk).update(**after, **stamps)
        part.refresh_from_db()
        if "direction_id" in after:
            self.moved.add(part.pk)
        self._note(part, before, after)
        return part

    def remove(self, part: Part) -> None:
        """Delete a part that nothing refers to."""
        self._note(part, snapshot(part), None)
        part.delete()

    def _note(self, part: Part, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        ChangeItem.objects.create(
            change=self.change,
            kind=kind_of(part),
            part=part.pk,
            label=label_of(part)[:250],
            version=part.version,
            before=before,
            after=after,
        )


@contextmanager
def changing(
    bank: MemoryBank | int, kind: str, *, even_frozen: bool = False, **why: Any
) -> Iterator[Recorder]:
    """A `Recorder` under the bank's lock, in one transaction.

    ``why`` holds fields of `Change`: user, run_id, step_id, reason, facts, proposal, reverts. Raises Frozen.
    """
    with transaction.atomic():
        row = locked(bank)
        if row.frozen and not even_frozen:
            raise Frozen(row)
        yield Recorder(row, kind, **why)


def opened(bank: MemoryBank, kind: str = ChangeKind.OPENED, **why: Any) -> Change:
    """Note that a bank came to be, with all it holds by then: its history begins here."""
    newest = Evidence.objects.filter(bank=bank).aggregate(newest=Max("id"))["newest"] or 0
    return Change.objects.create(bank=bank, kind=kind, evidence_seen=newest, **why)
