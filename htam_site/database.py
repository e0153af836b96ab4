"""Where the data lives: SQLite beside the code by default, PostgreSQL by URL."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

# WAL lets readers go on while one writer commits; IMMEDIATE takes the write lock at BEGIN, so that two
# writers queue up instead of failing on upgrade.
SQLITE_OPTIONS = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
}


def database_from_url(url: str, var_dir: Path) -> dict[str, Any]:
    """Django's settings for ``postgresql://user:password@host:port/name``, ``sqlite:///path`` or ""."""
    if not url:
        var_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # sessions live in it
        return _sqlite(str(var_dir / "htam.sqlite3"))
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(parts.path)
    if parts.scheme in {"postgres", "postgresql"}:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.lstrip("/"),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(parts.port or ""),
            "CONN_MAX_AGE": 60,
        }
    raise ImproperlyConfigured(
        f"HTAM_DATABASE_URL starts with {parts.scheme!r}; use postgresql://... or sqlite:///path."
    )


def _sqlite(path: str) -> dict[str, Any]:
    # Tests use a file too: threads on one in-memory database meet lock errors that a file does not have.
    test = {"NAME": str(Path(tempfile.gettempdir()) / f"htam-test-{os.getpid()}.sqlite3")}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": SQLITE_OPTIONS, "TEST": test}
