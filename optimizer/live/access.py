"""Who may watch a run, read afresh each time: a session that ended or a role that was revoked counts at
once."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user

from htam_site.roles import Role, roles_of
from optimizer.models import Run


@dataclass(frozen=True)
class Refusal:
    """Why a socket is closed, with the close code that says the same to a machine."""

    code: int
    reason: str


SIGNED_OUT = Refusal(4401, "Your session has ended; sign in again.")
NOT_ALLOWED = Refusal(4403, "Your account has no role that may watch runs; ask an administrator.")
NO_SUCH_RUN = Refusal(4404, "There is no such run.")


def refusal(session_key: str | None, run_id: int) -> Refusal | None:
    """Why this session may not watch this run now; None where it may."""
    user = user_of(session_key)
    if user is None:
        return SIGNED_OUT
    if Role.VIEWER not in roles_of(user):
        return NOT_ALLOWED
    if not Run.objects.filter(pk=run_id).exists():
        return NO_SUCH_RUN
    return None


def user_of(session_key: str | None) -> Any:
    """The user whom a stored session signs in now, its hash verified; None where it signs in nobody."""
    if not session_key:
        return None
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(SimpleNamespace(session=store))  # type: ignore[arg-type]  # it reads the session only
    return user if user.is_authenticated else None
