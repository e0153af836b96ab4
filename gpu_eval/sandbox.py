"""What contains a child process: bubblewrap where it works, else namespaces by `unshare`, else nothing, and
it says so.

All three give an allow-listed environment, its own scratch folder and resource limits that the child sets
on itself before it runs foreign code. The namespaces add: no network, own process tree (so killing the
first process kills all), and, with bubblewrap, a file system that holds the interpreter, this package and
the device's files, nothing else.
"""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gpu_eval.limits import DEFAULT_LIMITS, MIB, Bounds, Profile
from gpu_eval.tree import MARK

BUBBLEWRAP, UNSHARE, NONE = "bubblewrap", "unshare", "none"
CHOICE_VARIABLE = "HTAM_SANDBOX"  # auto (default), bubblewrap, unshare or none

# Variables a child may inherit. Anything else (keys, tokens, database addresses) stays behind.
ENVIRONMENT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "POCL_DEVICES",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)

READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/sys")
READABLE_ETC = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/OpenCL",
    "/etc/alternatives",
    "/etc/localtime",
)
DEVICE_PATTERNS = ("/dev/nvidia*", "/dev/dri", "/dev/kfd")
INNER_SCRATCH = "/scratch"  # its name under bubblewrap
SHARED_MEMORY_BYTES = 64 * MIB  # of a /dev/shm of its own


@dataclass(frozen=True)
class Sandbox:
    """How one child is started. ``scratch`` is a folder of its own, ``mark`` names its tree."""

    level: str
    bounds: Bounds
    scratch: Path
    mark: str = ""

    @property
    def private_scratch(self) -> bool:
        """Whether the scratch is memory of fixed size that only the child sees."""
        return self.level == BUBBLEWRAP

    @property
    def inner_scratch(self) -> str:
        """The scratch folder's path as the child sees it."""
        return INNER_SCRATCH if self.level == BUBBLEWRAP else str(self.scratch)

    def command(self, arguments: list[str]) -> list[str]:
        """``arguments`` wrapped in what contains them."""
        if self.level == BUBBLEWRAP:
            return [*bubblewrap_prefix(self.bounds), *arguments]
        if self.level == UNSHARE:
            return [*unshare_prefix(), *arguments]
        return arguments

    def environment(self) -> dict[str, str]:
        """The child's whole environment."""
        kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        scratch = self.inner_scratch
        return {
            **kept,
            MARK: self.mark,
            "HOME": scratch,
            "USER": "htam",  # torch.compile asks who it is, and the sandbox has no /etc/passwd
            "TMPDIR": scratch,
            "XDG_CACHE_HOME": scratch,
            "POCL_CACHE_DIR": scratch,
            "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
            "TRITON_CACHE_DIR": f"{scratch}/triton",
            "CUDA_CACHE_PATH": f"{scratch}/cuda",
            # OpenMP threads sleep soon after a call: the next one needs their cores.
            "GOMP_SPINCOUNT": "20000",
            # Freed host memory is kept and used again: else eager PyTorch on a CPU spends its time on page
            # faults in fresh results, and any plan, whose buffers are there already, looks fast.
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
            "PYTHONPATH": os.pathsep.join([str(package_root()), *library_paths()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",
            "PYTHONNOUSERSITE": "1",
        }


def package_root() -> Path:
    """The folder that holds the package `gpu_eval`."""
    return Path(__file__).resolve().parent.parent


@functools.cache
def sandbox_level() -> str:
    """The strongest containment that works here, or the one that ``HTAM_SANDBOX`` names."""
    choice = os.environ.get(CHOICE_VARIABLE, "auto")
    if choice in (BUBBLEWRAP, UNSHARE, NONE):
        return choice
    if shutil.which("bwrap") and succeeds(
        [*bubblewrap_prefix(DEFAULT_LIMITS.bounds(Profile.RUNNER)), "true"]
    ):
        return BUBBLEWRAP
    if shutil.which("unshare") and succeeds([*unshare_prefix(), "true"]):
        return UNSHARE
    return NONE


def succeeds(command: list[str]) -> bool:
    """Whether a short command ends with status 0."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def unshare_prefix() -> list[str]:
    """Own network, IPC and process namespaces; a user namespace too where the caller is not root."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    flags = ["--net", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL"]
    leash = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    return [*leash, "unshare", *user, *flags, "--"]


@functools.cache
def user_namespace_flags() -> tuple[str, ...]:
    """Where bubblewrap can: a user namespace in which no further one can be made (it would allow mounts)."""
    flags = ("--unshare-user", "--disable-userns")
    return flags if succeeds(["bwrap", *flags, "--ro-bind", "/", "/", "true"]) else ()


def bubblewrap_prefix(bounds: Bounds) -> list[str]:
    """A file system of the interpreter, this package and the device. One folder is writable: the scratch, as
    large as the bounds say; /tmp is another name of it."""
    command = ["bwrap", "--unshare-all", *user_namespace_flags()]
    command += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in (*READABLE, *READABLE_ETC):
        command += ["--ro-bind-try", path, path]
    command += ["--proc", "/proc", "--dev", "/dev"]
    command += ["--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    for device in device_files() if bounds.device else ():
        command += ["--dev-bind-try", device, device]
    for path in interpreter_paths():
        command += ["--ro-bind", path, path]
    command += ["--size", str(bounds.scratch_bytes), "--tmpfs", INNER_SCRATCH]
    command += ["--symlink", INNER_SCRATCH, "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]
    return [*command, "--chdir", INNER_SCRATCH, "--"]


def device_files() -> list[str]:
    """The GPU's device files on this machine."""
    return [path for pattern in DEVICE_PATTERNS for path in sorted(glob.glob(pattern))]


def library_paths() -> list[str]:
    """Folders of the caller's PYTHONPATH that hold a library a child imports (``pip --target`` makes such).

    Others stay out: a PYTHONPATH of "." would show the child the whole checkout, database included.
    """
    libraries = ("torch", "numpy", "pycuda", "pyopencl", "cuda")
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    found = (str(Path(entry).resolve()) for entry in entries)
    return [path for path in found if any(os.path.isdir(os.path.join(path, name)) for name in libraries)]


def interpreter_paths() -> list[str]:
    """Folders that a Python child reads, outside those of the system."""
    package = Path(__file__).resolve().parent
    paths = {str(package), sys.prefix, sys.base_prefix, sys.exec_prefix, *library_paths()}
    paths.update(str(Path(prefix).resolve()) for prefix in (sys.prefix, sys.base_prefix))
    paths.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    existing = sorted(path for path in paths if os.path.isdir(path))
    return [
        path for path in existing if not path.startswith(("/usr/", "/opt/")) and path not in ("/usr", "/")
    ]
