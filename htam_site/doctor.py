"""What this machine has and lacks for HTAM, with the fix for each lack. Nothing here imports torch itself."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import Error as DatabaseError

from htam_site.frontend import missing_vendor_files

PROBE_SECONDS = 90
LIST_OPENCL = """
import json, pyopencl as cl
print(json.dumps([[p.name, d.name] for p in cl.get_platforms() for d in p.get_devices()]))
"""


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``needed`` tells a lack that stops the product from one that narrows it."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True


def examine() -> list[Finding]:
    """Every finding, in the order a newcomer would fix them."""
    findings: list[Finding] = []
    for look in LOOKS:
        try:
            findings += look()
        except Exception as error:  # a doctor reports whatever it meets
            findings.append(Finding(look.__name__.strip("_"), False, f"{type(error).__name__}: {error}"))
    return findings


def _python() -> list[Finding]:
    version = platform.python_version()
    good = sys.version_info >= (3, 11)
    return [
        Finding("python", good, f"{version} at {sys.executable}", "" if good else "Use Python 3.11 or newer.")
    ]


def _torch() -> list[Finding]:
    version = _version("torch")
    if version is None:
        return [Finding("torch", False, "not installed", "Run `make up`, or `pip install torch`.")]
    probe = _run([sys.executable, "-c", "import torch; print(torch.version.cuda or 'CPU build')"])
    if probe is None:
        return [
            Finding(
                "torch",
                False,
                f"{version} does not import",
                "Reinstall it: `pip install --force-reinstall torch`.",
            )
        ]
    return [Finding("torch", True, f"{version}, {_cuda_word(probe)}")]


def _cuda_word(answer: str) -> str:
    return answer if answer == "CPU build" else f"CUDA {answer}"


def _opencl() -> list[Finding]:
    if _version("pyopencl") is None:
        return [Finding("opencl", False, "pyopencl is not installed", "Run `pip install pyopencl`.")]
    answer = _run([sys.executable, "-c", LIST_OPENCL])
    devices = json.loads(answer) if answer else []
    if not devices:
        fix = "Run `pip install pocl-binary-distribution`, which brings OpenCL for a CPU."
        return [Finding("opencl", False, "no OpenCL device", fix)]
    return [Finding("opencl", True, "; ".join(f"{platform}: {device}" for platform, device in devices))]


def _cuda() -> list[Finding]:
    smi = _run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], seconds=15)
    gpu = Finding(
        "gpu",
        bool(smi),
        smi.replace("\n", "; ") if smi else "no NVIDIA GPU or driver",
        "" if smi else "Nothing to do on a CPU machine; with a GPU, install its driver.",
        needed=False,
    )
    nvcc = _run(["nvcc", "--version"], seconds=15)
    compiler = Finding(
        "nvcc",
        bool(nvcc),
        nvcc.splitlines()[-1] if nvcc else "not on PATH",
        "" if nvcc else "Install the CUDA toolkit to compile-check CUDA plans here.",
        needed=False,
    )
    pycuda = _version("pycuda")
    backend = Finding(
        "pycuda",
        pycuda is not None,
        pycuda or "not installed",
        "" if pycuda else "On a machine with a GPU and a CUDA toolkit, run `make cuda`.",
        needed=False,
    )
    return [gpu, compiler, backend]


def _sandbox() -> list[Finding]:
    path = shutil.which("bwrap")
    if path is None:
        fix = "Install it (Debian: `apt-get install bubblewrap`); kernels run uncontained until then."
        return [Finding("bubblewrap", False, "not on PATH", fix, needed=False)]
    works = _run([path, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true"], seconds=10)
    if works is None:
        fix = "Allow unprivileged user namespaces on this machine; kernels run uncontained until then."
        return [Finding("bubblewrap", False, f"{path} cannot make a sandbox here", fix, needed=False)]
    return [Finding("bubblewrap", True, path)]


def _browser() -> list[Finding]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    fix = "" if path else "Only the browser tests need it (Debian: `apt-get install chromium`)."
    return [Finding("chromium", path is not None, path or "not on PATH", fix, needed=False)]


def _front_end() -> list[Finding]:
    missing = missing_vendor_files(settings.NODE_MODULES)
    if missing:
        return [
            Finding(
                "front end",
                False,
                f"{len(missing)} files missing, e.g. {missing[0]}",
                "Run `npm ci --ignore-scripts`.",
            )
        ]
    return [Finding("front end", True, str(settings.NODE_MODULES))]


def _database() -> list[Finding]:
    name = f"{connection.vendor}: {connection.settings_dict['NAME']}"
    try:
        executor = MigrationExecutor(connection)
        waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as error:
        fix = "Check HTAM_DATABASE_URL and that HTAM_VAR_DIR is writable."
        return [Finding("database", False, f"{name} does not open: {error}", fix)]
    migrations = Finding(
        "migrations",
        not waiting,
        f"{len(waiting)} not applied" if waiting else "all applied",
        "Run `python manage.py migrate`." if waiting else "",
    )
    return [Finding("database", True, name), migrations]


def _worker() -> list[Finding]:
    from optimizer.services.workers import live_workers

    try:
        alive = live_workers()
    except DatabaseError:
        return [Finding("worker", False, "unknown until migrations are applied", "", needed=False)]
    detail = ", ".join(f"{worker.name} ({worker.activity or 'idle'})" for worker in alive)
    fix = "" if alive else "Run `python manage.py worker`, or `python manage.py serve` for web and worker."
    found = [Finding("worker", bool(alive), detail or "none runs", fix, needed=False)]
    for worker in alive:
        found += [_sentinels(worker.name, kind, stored) for kind, stored in worker.sentinels.items()]
    return found


def _sentinels(worker: str, kind: str, stored: dict[str, Any]) -> Finding:
    """What became of the plans with a known end that a worker tries before it judges others."""
    good = stored["state"] != "failed"
    fix = "" if good else "Nothing is judged there until they pass. Look at what else uses the device."
    return Finding(f"sentinels {kind}", good, f"{stored['sentence']} ({worker})", fix, needed=False)


def _secret_key() -> list[Finding]:
    if os.environ.get("HTAM_SECRET_KEY"):
        return [Finding("secret key", True, "from HTAM_SECRET_KEY")]
    path = settings.VAR_DIR / "secret_key"
    mode = path.stat().st_mode & 0o777
    private = mode & 0o077 == 0
    return [
        Finding(
            "secret key", private, f"{path}, mode {mode:o}", "" if private else f"Run `chmod 600 {path}`."
        )
    ]


LOOKS: list[Callable[[], list[Finding]]] = [
    _python,
    _torch,
    _opencl,
    _cuda,
    _sandbox,
    _browser,
    _front_end,
    _secret_key,
    _database,
    _worker,
]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _run(command: list[str], seconds: float = PROBE_SECONDS) -> str | None:
    """Standard output of a command, or None where it is missing, fails or hangs."""
    try:
        done: Any = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return str(done.stdout.strip())
