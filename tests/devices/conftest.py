"""Open backends, one a kind for the whole session: a context costs more than a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_eval.devices import DeviceBackend, DeviceUnavailable, open_backend

_opened: dict[str, DeviceBackend] = {}


@pytest.fixture(scope="session", autouse=True)
def _closing() -> Iterator[None]:
    yield
    for backend in _opened.values():
        backend.close()


def opened(kind: str) -> DeviceBackend:
    """The session's backend of this kind; the test is skipped where there is none."""
    if kind not in _opened:
        try:
            _opened[kind] = open_backend(kind)
        except DeviceUnavailable as reason:
            pytest.skip(f"no {kind} device: {reason}")
    return _opened[kind]


@pytest.fixture(params=["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> DeviceBackend:
    """Every backend in turn."""
    return opened(request.param)


@pytest.fixture
def needs_opencl() -> None:
    """For tests that open a backend of their own."""
    opened("opencl")


@pytest.fixture
def cuda() -> DeviceBackend:
    return opened("cuda")
