"""The search methods a run can name. A method other than "htam" is a policy with parts switched off."""

from __future__ import annotations

METHODS: dict[str, str] = {"htam": "Hierarchical transition memory"}
