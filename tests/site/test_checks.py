"""System checks and the doctor: a wrong set-up is named with its fix."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings
from django.utils import timezone

from htam_site import checks, doctor
from optimizer.models import WorkerHeartbeat


def ids(messages: list[Any]) -> list[str]:
    assert all(message.hint for message in messages), "every message carries its fix"
    return [message.id for message in messages]


def test_missing_front_end_files_are_named(tmp_path: Path) -> None:
    """A checkout without npm's files says what to run."""
    with override_settings(NODE_MODULES=tmp_path):
        assert ids(checks.vendor_files()) == ["htam.W001"]


def test_debug_is_refused_for_other_machines() -> None:
    """Tracebacks do not reach the network."""
    with override_settings(DEBUG=True, ALLOWED_HOSTS=["gpu-box", "localhost"]):
        assert ids(checks.debug_is_local()) == ["htam.E001"]
    with override_settings(DEBUG=True, ALLOWED_HOSTS=["localhost"]):
        assert ids(checks.debug_is_local()) == []
    with override_settings(DEBUG=False, ALLOWED_HOSTS=["gpu-box"]):
        assert ids(checks.debug_is_local()) == []


def test_a_readable_secret_key_is_refused(tmp_path: Path) -> None:
    """Whoever reads the key can forge sessions."""
    key = tmp_path / "secret_key"
    key.write_text("k" * 50)
    key.chmod(0o644)
    with override_settings(VAR_DIR=tmp_path):
        assert ids(checks.secret_key_is_private()) == ["htam.E002"]
        key.chmod(0o600)
        assert ids(checks.secret_key_is_private()) == []


def test_a_short_secret_key_is_refused() -> None:
    """A guessable key is as bad."""
    with override_settings(SECRET_KEY="short"):
        assert ids(checks.secret_key_is_long()) == ["htam.E003"]


def test_unreachable_redis_is_a_warning_only() -> None:
    """Redis carries nudges; without it the live view polls."""
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        assert set(ids(checks.redis_answers())) <= {"htam.W002", "htam.E004"}
        assert ids(checks.redis_answers())
    with override_settings(REDIS_URL=""):
        assert ids(checks.redis_answers()) == []


def test_serving_everywhere_needs_names() -> None:
    """A server that answers 400 to everybody else is named before people meet it."""
    with override_settings(HOST="0.0.0.0", ALLOWED_HOSTS=["localhost"]):
        assert ids(checks.served_hosts_are_allowed()) == ["htam.W004"]
    with override_settings(HOST="0.0.0.0", ALLOWED_HOSTS=["gpu-box"]):
        assert ids(checks.served_hosts_are_allowed()) == []


def test_impossible_port_is_refused() -> None:
    """A typing error in HTAM_PORT is said at once."""
    with override_settings(PORT=80_000):
        assert ids(checks.ports_are_valid()) == ["htam.E006"]


def test_malformed_environment_is_one_sentence() -> None:
    """A value that is no number stops start-up and names the variable."""
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=settings.BASE_DIR,
        env={"PATH": "/usr/bin:/bin", "HTAM_PORT": "eighty", "HTAM_VAR_DIR": str(settings.VAR_DIR)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].endswith("HTAM_PORT='eighty' is not a whole number.")


@pytest.fixture
def findings(db: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, doctor.Finding]:
    """The doctor's findings without its slow looks at torch and OpenCL."""
    monkeypatch.setattr(
        doctor, "LOOKS", [look for look in doctor.LOOKS if look.__name__ not in {"_torch", "_opencl"}]
    )
    return {finding.name: finding for finding in doctor.examine()}


def test_doctor_names_a_fix_for_every_needed_lack(findings: dict[str, doctor.Finding]) -> None:
    """Nobody is left with a bare "missing"."""
    assert {"python", "front end", "database", "migrations", "worker", "bubblewrap"} <= set(findings)
    for finding in findings.values():
        assert finding.ok or finding.fix, finding


def test_doctor_sees_the_worker(findings: dict[str, doctor.Finding]) -> None:
    """No heartbeat, no worker; a fresh one, a worker with what it does."""
    assert not findings["worker"].ok
    assert "manage.py worker" in findings["worker"].fix
    now = timezone.now()
    WorkerHeartbeat.objects.create(name="w", queue="htam", activity="idle", started_at=now, seen_at=now)
    assert doctor._worker()[0].ok


def test_doctor_survives_a_look_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken machine is what it is for."""

    def _odd() -> list[doctor.Finding]:
        raise RuntimeError("odd machine")

    monkeypatch.setattr(doctor, "LOOKS", [_odd])
    assert doctor.examine() == [doctor.Finding("odd", False, "RuntimeError: odd machine")]


def test_doctor_json_is_one_object(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts read the same findings."""
    monkeypatch.setattr(doctor, "LOOKS", [doctor._python, doctor._database])
    out = StringIO()
    call_command("doctor", "--json", stdout=out)
    report = json.loads(out.getvalue())
    assert report["usable"] is True
    assert [finding["name"] for finding in report["findings"]] == ["python", "database", "migrations"]
