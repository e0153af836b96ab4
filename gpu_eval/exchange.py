"""The memory that judge and candidate share on a CPU: a sealed file without a name, inherited as a descriptor.

Its size is fixed by seals before any candidate's code is loaded, so that nobody can make it shorter under the
judge's feet (SIGBUS) or fill the machine through it. Content is protected by nothing: the judge keeps pristine
copies of inputs and weights and reads outputs only.
"""

from __future__ import annotations

import fcntl
import os

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Exchange:
    """A sparse memory file of ``most_bytes``, until `seal` cuts it to what the arena takes.

    ``fd`` has the same number here and in every child that inherits it. Raises OSError where the system makes
    none.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.fd = os.memfd_create("htam-exchange", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, most_bytes)

    @property
    def path(self) -> str:
        """How a child that inherited the descriptor opens it."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def nbytes(self) -> int:
        """Its size now."""
        return os.fstat(self.fd).st_size

    @property
    def sealed(self) -> bool:
        return fcntl.fcntl(self.fd, fcntl.F_GET_SEALS) & SEALS == SEALS

    def seal(self, nbytes: int) -> None:
        """Fix the size at ``nbytes`` for good. Raises ValueError for a size that is none of this file's."""
        if not 0 <= nbytes <= self.most_bytes:
            raise ValueError(f"an arena of {nbytes} bytes does not lie within {self.most_bytes}")
        os.ftruncate(self.fd, nbytes)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)

    def close(self) -> None:
        """Drop this process's hold; the memory goes with the last. Safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
