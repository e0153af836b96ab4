"""What an administrator does to people: add, give roles, close an account, hand out a login link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.urls import reverse
from sesame.utils import get_query_string

from htam_site.accounts.roles import set_roles
from htam_site.roles import Role

ADMIN = "admin"


class Refused(ValueError):
    """What was asked cannot be done; the message is one sentence for the person who asked."""


def ensure_admin() -> User:
    """The first account: a superuser without a password, who signs in by link. Made once."""
    user, made = User.objects.get_or_create(
        username=ADMIN, defaults={"is_superuser": True, "is_staff": True, "is_active": True}
    )
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        set_roles(user, Role)
    return user


def add_person(username: str, roles: Iterable[str]) -> User:
    """A new account without a password. Raises Refused where the name is taken or unusable."""
    username = username.strip()
    user = User(username=username)
    user.set_unusable_password()
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        reason = " ".join(error.messages)
        raise Refused(f"The user name {username[:60]!r} is not usable: {reason}") from None
    if taken := User.objects.filter(username__iexact=username).first():
        raise Refused(f"There is a user called {taken.username!r} already; upper and lower case are one.")
    try:
        with transaction.atomic():
            user.save()
            set_roles(user, roles)
    except IntegrityError:
        raise Refused(f"There is a user called {username!r} already.") from None
    return user


def change_person(
    user: User, by: Any, *, roles: Iterable[str] | None = None, active: bool | None = None
) -> None:
    """Change roles or close and reopen an account. Raises Refused on closing one's own account."""
    if active is False and user == by:
        raise Refused("You cannot close your own account.")
    if roles is not None:
        set_roles(user, roles)
    if active is not None:
        user.is_active = active
        user.save(update_fields=["is_active"])


def login_path(user: User) -> str:
    """Path and query of a link that signs ``user`` in once, within an hour."""
    return reverse("login-link") + get_query_string(user)
