"""What every page's frame shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from htam_site.navigation import search_for
from htam_site.roles import Role, roles_of


def frame(request: HttpRequest) -> dict[str, Any]:
    """Roles of the signed-in user, for showing only what they may do."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    roles = roles_of(user)
    return {
        "roles": roles,
        "may_operate": Role.OPERATOR in roles,
        "may_curate": Role.CURATOR in roles,
        "search": search_for(request.path),
    }
