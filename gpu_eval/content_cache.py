"""Small answers kept on disk by content: compiled code, times of torch.compile.

Only the evaluator's own process reads and writes here; children never see the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

MAX_BYTES = 1024**3
MAX_ENTRIES = 20_000
SUFFIX = ".json"

Entry = dict[str, Any]


def cache_folder(name: str) -> Path:
    """The cache ``name`` below HTAM_VAR_DIR where that is set, else in the user's own cache."""
    var = os.environ.get("HTAM_VAR_DIR")
    if var:
        return Path(var) / "cache" / name
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "htam" / name


class ContentCache:
    """Entries as files, named by key, each beginning with the SHA-256 of its key and content.

    A folder that cannot be used makes every lookup a miss. The least recently used go first when there are more
    than ``max_entries`` or more than ``max_bytes``.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.room = 0  # bytes that may be written before the folder is looked through again
        self.slots = 0  # entries likewise

    def get(self, key: str) -> Entry | None:
        """The entry of ``key``; None when there is none or its content is damaged."""
        path = self._path(key)
        try:
            digest, _, body = path.read_bytes().partition(b"\n")
            if digest.decode() != self._digest(key, body):
                path.unlink()
                return None
            entry = json.loads(body)
            os.utime(path)
        except (OSError, ValueError):
            return None
        return entry if isinstance(entry, dict) else None

    def put(self, key: str, entry: Entry) -> None:
        """Store ``entry``; a reader sees the whole of it or nothing."""
        body = json.dumps(entry).encode()
        data = self._digest(key, body).encode() + b"\n" + body
        if len(data) > self.max_bytes:
            return
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(name, path)
            except OSError:
                os.unlink(name)
                raise
            self.room -= len(data)
            self.slots -= 1
            if self.room < 0 or self.slots < 0:
                self._evict()

    def _evict(self) -> None:
        """Drop the least recently used beyond the bounds, and some more, so that this is rare."""
        found = []
        for path in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        found.sort(reverse=True)
        size = count = 0
        for _, bytes_, path in found:
            size, count = size + bytes_, count + 1
            if size > self.max_bytes or count > self.max_entries:
                size, count = size - bytes_, count - 1
                with contextlib.suppress(OSError):
                    path.unlink()
        self.room = min(self.max_bytes - size, self.max_bytes // 16)
        self.slots = min(self.max_entries - count, self.max_entries // 16)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / (key + SUFFIX)

    @staticmethod
    def _digest(key: str, body: bytes) -> str:
        return hashlib.sha256(key.encode() + b"\n" + body).hexdigest()
