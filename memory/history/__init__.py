"""The history of a bank: every change recorded with before, after, who and why; any of them undone."""

from memory.history.errors import Conflict, Frozen, Refused, Stale
from memory.history.evidence import exclude_evidence, include_evidence, mark_rows, set_excluded
from memory.history.moments import Moment, parse_moment
from memory.history.recording import Recorder, changing, locked, opened
from memory.history.reverting import later_on, revert, revert_to
from memory.history.snapshots import survivor

__all__ = [
    "Conflict",
    "Frozen",
    "Moment",
    "Recorder",
    "Refused",
    "Stale",
    "changing",
    "exclude_evidence",
    "include_evidence",
    "later_on",
    "locked",
    "mark_rows",
    "opened",
    "parse_moment",
    "revert",
    "revert_to",
    "set_excluded",
    "survivor",
]
