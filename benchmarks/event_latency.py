"""From an event's birth in the worker to its arrival at a client: five clients, real server, real worker.

    python benchmarks/event_latency.py [--clients 5] [--steps 6]

Starts Daphne and a worker on a database of its own, launches a run of a small operator, follows it with
websocket clients and prints the median and the 95th percentile in milliseconds, as one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READY_SECONDS = 60
INSPECTION_SECONDS = 180
RUN_SECONDS = 600
LIVE = ("queued", "running")


def main() -> None:
    parser = argparse.ArgumentParser(description="Milliseconds from event to client.")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="htam-bench-") as folder:
        prepare(folder)
        port = free_port()
        web = ["-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "-v", "0", "htam_site.asgi:application"]
        with process(web), process(["manage.py", "worker"]):
            run_id, cookie = launch(options.steps)
            wait_for_port(port)
            delays = asyncio.run(follow_all(port, run_id, cookie, options.clients))
    figures = {
        "clients": options.clients,
        "events": len(delays),
        "median_ms": round(statistics.median(delays)),
        "p95_ms": round(statistics.quantiles(delays, n=20)[18]),
        "worst_ms": round(max(delays)),
    }
    print(json.dumps(figures))


def prepare(folder: str) -> None:
    os.environ.setdefault("HTAM_DATABASE_URL", f"sqlite:///{folder}/bench.sqlite3")
    os.environ.update(HTAM_VAR_DIR=folder, HTAM_LOG_LEVEL="WARNING")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "htam_site.settings")
    sys.path.insert(0, str(ROOT))
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def launch(steps: int) -> tuple[int, str]:
    """A run of an inspected operator, and the session cookie of somebody who may watch it."""
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User

    from memory.services import ensure_seed_bank
    from optimizer.choices import OperatorStatus
    from optimizer.services import operators, runs
    from tests.optimizer.support import OPERATOR

    user = User.objects.create_superuser("bench")
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(user.pk), settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    operator = operators.create_operator(name="bench", source=OPERATOR, owner=user)
    deadline = time.monotonic() + INSPECTION_SECONDS
    while operator.status == OperatorStatus.PENDING:
        if time.monotonic() > deadline:
            raise SystemExit("The operator was not inspected in time.")
        time.sleep(0.5)
        operator.refresh_from_db()
    run = runs.launch(operator, user=user, bank=ensure_seed_bank(), steps_total=steps)
    return run.pk, f"{settings.SESSION_COOKIE_NAME}={store.session_key}"


async def follow_all(port: int, run_id: int, cookie: str, clients: int) -> list[float]:
    followers = [follow(port, run_id, cookie) for _ in range(clients)]
    return [delay for delays in await asyncio.gather(*followers) for delay in delays]


async def follow(port: int, run_id: int, cookie: str) -> list[float]:
    """Delays, in milliseconds, of the events that were born after this client had connected."""
    from websockets.asyncio.client import connect

    delays: list[float] = []
    address = f"ws://127.0.0.1:{port}/ws/runs/{run_id}/"
    headers = {"Cookie": cookie}
    async with asyncio.timeout(RUN_SECONDS):
        async with connect(address, additional_headers=headers, origin=f"http://127.0.0.1:{port}") as socket:  # type: ignore[arg-type]
            connected = datetime.now(UTC)
            async for text in socket:
                now = datetime.now(UTC)
                message = json.loads(text)
                if message["type"] != "events":
                    raise SystemExit(f"Refused: {message}")
                for event in message["events"]:
                    born = datetime.fromisoformat(event["at"])
                    if born > connected:
                        delays.append((now - born).total_seconds() * 1000)
                    if event["kind"] == "run.status" and event["payload"]["status"] not in (
                        "queued",
                        "running",
                    ):
                        return delays
                await socket.send(json.dumps({"ack": message["last"]}))
    return delays


@contextlib.contextmanager
def process(arguments: list[str]) -> Iterator[None]:
    """A Python process in the project's folder while the block runs."""
    started = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, start_new_session=True)
    try:
        yield
    finally:
        started.terminate()
        try:
            started.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise SystemExit("The web server did not start.")


if __name__ == "__main__":
    main()
