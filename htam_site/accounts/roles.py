"""The groups behind the roles, and what a person may be given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction

from htam_site.roles import Role


def make_groups(**kwargs: Any) -> None:
    """Make sure that every role has its group. Runs after each migration."""
    for role in Role:
        Group.objects.using(kwargs.get("using") or "default").get_or_create(name=role.value)


def set_roles(user: User, roles: Iterable[str]) -> None:
    """Give ``user`` exactly ``roles``; groups that are no roles stay. Raises ValueError on an unknown one."""
    wanted = {Role(role) for role in roles}
    with transaction.atomic():
        user.groups.remove(*Group.objects.filter(name__in=[role.value for role in Role]))
        user.groups.add(*Group.objects.filter(name__in=[role.value for role in wanted]))
