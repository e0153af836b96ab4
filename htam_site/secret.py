"""The secret key: from the environment, else made once and kept readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def secret_key(var_dir: Path) -> str:
    """HTAM_SECRET_KEY, or the content of ``var/secret_key``, which is created on first use (mode 0600)."""
    from_environment = os.environ.get("HTAM_SECRET_KEY")
    if from_environment:
        return from_environment
    path = var_dir / "secret_key"
    if not path.exists():
        var_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:  # another process was first
            return path.read_text()
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(50))
    return path.read_text()
