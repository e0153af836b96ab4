"""A small bank, people of each role, and a way to teach."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

from memory.importing import import_bank
from memory.models import MemoryBank
from memory.services import MemoryChange, record_evidence

PLACES = [
    ("cuda:H200", "float32", "pointwise"),
    ("cuda:A100", "float32", "row_reduction"),
    ("opencl:PoCL", "float16", "pointwise"),
]


def strategy_data(key: str, **changes: Any) -> dict[str, Any]:
    return {
        "key": key, "title": key.title(), "edit_pattern": "Edit.", "applies_when": "Always.",
        "conditions": [],
        "checks": [], "risks": [], "recipe": None, "prior": 0.1, "retired": False, **changes,
    }  # fmt: skip


def direction_data(key: str, **changes: Any) -> dict[str, Any]:
    return {
        "key": key, "title": key.title(), "intent": f"About {key}.", "goals": [], "triggers": [],
        "risks": [], "prior": 0.1, "retired": False, "position": None,
        "strategies": [strategy_data(f"{key}-one"), strategy_data(f"{key}-two")], **changes,
    }  # fmt: skip


def edge_data(source: str, target: str, **changes: Any) -> dict[str, Any]:
    return {
        "source": source, "target": target, "applies_when": "", "rationale": "", "risks": [],
        "prior": 0.0, "retired": False, **changes,
    }  # fmt: skip


def bank_data(**changes: Any) -> dict[str, Any]:
    """Three directions, six strategies, four edges, no evidence, in canonical order."""
    return {
        "schema": "htam-memory-bank",
        "schema_version": 1,
        "name": "Small",
        "description": "For tests.",
        "directions": [direction_data("access"), direction_data("fusion"), direction_data("reuse")],
        "edges": [
            edge_data("START", "access"), edge_data("START", "fusion"), edge_data("access", "reuse"),
            edge_data("fusion", "access"),
        ],
        "evidence": [],
        **changes,
    }  # fmt: skip


@pytest.fixture
def bank(db: None) -> MemoryBank:
    return import_bank(bank_data())


@pytest.fixture
def teach(bank: MemoryBank) -> Callable[..., MemoryChange]:
    """Record evidence on ``bank``: a correct, improving step of its own unless told otherwise."""
    ids = count(1)

    def record(place: int = 0, **changes: Any) -> MemoryChange:
        device, dtype, family = PLACES[place]
        fields = {
            "direction": "fusion", "strategy": None, "source": None, "step_id": next(ids), "run_id": 1,
            "verdict": "correct", "compiled": True, "correct": True, "improved": True, "utility": 0.5,
            "speedup": 1.41, "device": device, "dtype": dtype, "family": family, "proposer": "recipes",
        }  # fmt: skip
        return record_evidence(bank, **{**fields, **changes})

    return record


@pytest.fixture
def client_as(db: None) -> Callable[[str], APIClient]:
    """A signed-in API client of one role; "" signs nobody in, "none" a person without a role."""

    def make(role: str) -> APIClient:
        client = APIClient()
        if role:
            user = User.objects.create_user(f"a-{role}")
            if role != "none":
                user.groups.add(Group.objects.get_or_create(name=role)[0])
            client.force_authenticate(user)
        return client

    return make
