"""Saves by people: a stale one is refused instead of overwriting somebody else's."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from memory.models import CuratedPart


def save_version(part: CuratedPart, changes: dict[str, Any], version: int, user: Any) -> bool:
    """Write ``changes`` if the stored version still is ``version``, and raise it by one.

    One compare-and-set update: of two people who save at once, the second gets False and nothing is lost.
    ``part`` is reloaded either way, so after False it holds the newer text.
    """
    stamped = {**changes, "version": version + 1, "updated_by": user, "updated_at": timezone.now()}
    saved = type(part)._default_manager.filter(pk=part.pk, version=version).update(**stamped)
    part.refresh_from_db()
    return bool(saved)
