"""System checks: wrong settings and missing parts, each with an id and the fix."""

from __future__ import annotations

import importlib.util
import socket
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.db import connection
from django.db.utils import Error as DatabaseError

from htam_site.frontend import missing_vendor_files

LOCAL_HOSTS = {"localhost", "127.0.0.1", "[::1]", "::1", "testserver"}


@checks.register(checks.Tags.staticfiles)
def vendor_files(**kwargs: Any) -> list[checks.CheckMessage]:
    missing = missing_vendor_files(settings.NODE_MODULES)
    if not missing:
        return []
    return [
        checks.Warning(
            f"{len(missing)} front-end files are missing, e.g. {missing[0]}: pages will look broken.",
            hint="Run `npm ci --ignore-scripts` in the checkout, or `make up`.",
            id="htam.W001",
        )
    ]


@checks.register(checks.Tags.security)
def debug_is_local(**kwargs: Any) -> list[checks.CheckMessage]:
    foreign = [host for host in settings.ALLOWED_HOSTS if host not in LOCAL_HOSTS]
    if not settings.DEBUG or not foreign:
        return []
    return [
        checks.Error(
            f"HTAM_DEBUG is on and HTAM_ALLOWED_HOSTS has {foreign[0]!r}: others would see tracebacks.",
            hint="Unset HTAM_DEBUG, or serve local names only.",
            id="htam.E001",
        )
    ]


@checks.register(checks.Tags.security)
def secret_key_is_private(**kwargs: Any) -> list[checks.CheckMessage]:
    path = settings.VAR_DIR / "secret_key"
    if not path.exists() or path.stat().st_mode & 0o077 == 0:
        return []
    return [
        checks.Error(
            f"{path} can be read by other users of this machine.",
            hint=f"Run `chmod 600 {path}`.",
            id="htam.E002",
        )
    ]


@checks.register(checks.Tags.security)
def secret_key_is_long(**kwargs: Any) -> list[checks.CheckMessage]:
    if len(settings.SECRET_KEY) >= 32:
        return []
    return [
        checks.Error(
            "HTAM_SECRET_KEY is shorter than 32 characters.",
            hint="Use 50 random characters, or unset it: a key is then made and kept in HTAM_VAR_DIR.",
            id="htam.E003",
        )
    ]


@checks.register("htam")
def redis_answers(**kwargs: Any) -> list[checks.CheckMessage]:
    """Redis only carries nudges, so its absence slows the live view and breaks nothing."""
    if not settings.REDIS_URL:
        return []
    if importlib.util.find_spec("channels_redis") is None:
        return [
            checks.Error(
                "HTAM_REDIS_URL is set but channels-redis is not installed.",
                hint="Run `pip install -e '.[scale]'`, or unset HTAM_REDIS_URL.",
                id="htam.E004",
            )
        ]
    parts = urlsplit(settings.REDIS_URL)
    try:
        socket.create_connection((parts.hostname or "localhost", parts.port or 6379), timeout=1).close()
    except OSError as error:
        return [
            checks.Warning(
                f"Redis at {parts.hostname}:{parts.port or 6379} does not answer: {error}.",
                hint="Start it, or unset HTAM_REDIS_URL; the live view then polls the database.",
                id="htam.W002",
            )
        ]
    return []


@checks.register(checks.Tags.database)
def sqlite_is_wal(**kwargs: Any) -> list[checks.CheckMessage]:
    """Without WAL, readers and the worker's writes block each other. Network file systems refuse it."""
    if not kwargs.get("databases") or connection.vendor != "sqlite":
        return []
    try:
        with connection.cursor() as cursor:
            mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    except DatabaseError as error:
        return [
            checks.Error(
                f"The database cannot be opened: {error}.",
                hint="Make HTAM_VAR_DIR writable for this user.",
                id="htam.E005",
            )
        ]
    if mode in {"wal", "memory"}:
        return []
    return [
        checks.Warning(
            f"SQLite uses journal mode {mode!r} instead of WAL: pages will wait for the worker.",
            hint="Put HTAM_VAR_DIR on a local disk, or use PostgreSQL through HTAM_DATABASE_URL.",
            id="htam.W003",
        )
    ]


@checks.register("htam")
def ports_are_valid(**kwargs: Any) -> list[checks.CheckMessage]:
    if 1 <= settings.PORT <= 65535:
        return []
    return [
        checks.Error(f"HTAM_PORT is {settings.PORT}.", hint="Use a port from 1 to 65535.", id="htam.E006")
    ]


@checks.register("htam")
def served_hosts_are_allowed(**kwargs: Any) -> list[checks.CheckMessage]:
    if settings.HOST not in settings.EVERY_ADDRESS or not set(settings.ALLOWED_HOSTS) <= LOCAL_HOSTS:
        return []
    return [
        checks.Warning(
            f"HTAM_HOST is {settings.HOST}, HTAM_ALLOWED_HOSTS has local names only: other machines get 400.",
            hint="Set HTAM_ALLOWED_HOSTS to the names people type, e.g. gpu-box,localhost.",
            id="htam.W004",
        )
    ]
