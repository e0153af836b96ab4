"""Environments for subprocesses on the test database."""

from __future__ import annotations

import os
from urllib.parse import quote

import pytest
from django.db import connection

from memory.models import MemoryBank
from memory.services import ensure_seed_bank
from optimizer.models import Operator
from tests.optimizer.support import make_operator


@pytest.fixture
def child_environment(transactional_db: None) -> dict[str, str]:
    """Variables with which a subprocess works on this test's database."""
    return {**os.environ, "HTAM_DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "htam_site.settings"}


def database_url() -> str:
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    name, password = quote(str(settings["USER"])), quote(str(settings["PASSWORD"]))
    user = f"{name}:{password}@" if password else f"{name}@" if name else ""
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    return f"postgresql://{user}{settings['HOST']}{port}/{settings['NAME']}"


@pytest.fixture
def operator(db: None) -> Operator:
    return make_operator()


@pytest.fixture
def bank(db: None) -> MemoryBank:
    return ensure_seed_bank()
