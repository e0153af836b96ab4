"""Slowing down whoever guesses passwords: failures are counted by name and by address, in this process's cache."""

from __future__ import annotations

import hashlib

from django.core.cache import cache
from django.http import HttpRequest

WINDOW = 300  # seconds from the first failure
FAILURES_OF_A_NAME = 10
FAILURES_OF_AN_ADDRESS = 100  # people behind one proxy share an address


def is_blocked(request: HttpRequest, username: str) -> bool:
    """Whether too many attempts failed lately for this name or from this address."""
    return any(cache.get(key, 0) >= limit for key, limit in counters(request, username))


def note_failure(request: HttpRequest, username: str) -> None:
    for key, _ in counters(request, username):
        cache.add(key, 0, WINDOW)
        cache.incr(key)


def forget(request: HttpRequest, username: str) -> None:
    """After a success nothing speaks against the name; the address goes on being counted."""
    cache.delete(counters(request, username)[0][0])


def counters(request: HttpRequest, username: str) -> list[tuple[str, int]]:
    """Cache keys with their limits: the name's, the address's."""
    address = request.META.get("REMOTE_ADDR", "")
    return [
        (f"login-name-{digest(username.casefold())}", FAILURES_OF_A_NAME),
        (f"login-address-{digest(address)}", FAILURES_OF_AN_ADDRESS),
    ]


def digest(text: str) -> str:
    """Whatever was typed, as letters that any cache takes."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
