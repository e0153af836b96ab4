"""Three roles, held as Django groups: viewer (reads), operator (uploads, runs), curator (edits memory).

Operators and curators read as viewers do; a person can hold both. Superusers hold every role. Each page,
route and socket names the role it wants here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import user_passes_test
from django.core.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission

if TYPE_CHECKING:  # rest_framework.views reads HasRole from the settings while it is imported
    from rest_framework.request import Request
    from rest_framework.views import APIView

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    CURATOR = "curator"


def roles_of(user: Any) -> frozenset[Role]:
    """The roles of a user as of now, read from the database so that a revoked role ends at once."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    if user.is_superuser:
        return frozenset(Role)
    names = set(user.groups.values_list("name", flat=True))
    roles = {role for role in Role if role.value in names}
    return frozenset(roles | {Role.VIEWER}) if roles else frozenset()


def require_role(role: Role, read: Role = Role.VIEWER) -> Callable[[Any], Any]:
    """Decorate a page view: ``read`` suffices for safe methods, the others want ``role``. 403 without."""

    def decorate(view: Any) -> Any:
        def wrapped(request: Any, *args: Any, **kwargs: Any) -> Any:
            wanted = read if request.method in SAFE_METHODS else role
            if wanted not in roles_of(request.user):
                raise PermissionDenied(f"This needs the role {wanted.value!r}; ask an administrator for it.")
            return view(request, *args, **kwargs)

        wrapped.__name__ = view.__name__
        wrapped.__doc__ = view.__doc__
        wrapped.__module__ = view.__module__
        return user_passes_test(lambda user: user.is_authenticated)(wrapped)

    return decorate


class HasRole(BasePermission):
    """DRF permission: unsafe methods want the view's ``write_role`` (default operator), safe ones viewer.

    A view may set ``read_role`` too.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        if request.method in SAFE_METHODS:
            wanted = getattr(view, "read_role", Role.VIEWER)
        else:
            wanted = getattr(view, "write_role", Role.OPERATOR)
        self.message = f"This needs the role {wanted.value!r}; ask an administrator for it."
        return wanted in roles_of(request.user)
