"""The sections of the left rail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """One entry: ``icon`` is a Tabler icon name, ``href`` the start of every address in the section."""

    label: str
    icon: str
    href: str


SECTIONS = [
    Section("Runs", "player-play", "/runs/"),
    Section("Operators", "math-function", "/operators/"),
    Section("Memory", "topology-star-3", "/memory/"),
    Section("Devices", "cpu-2", "/devices/"),
    Section("Settings", "settings", "/settings/"),
]


@dataclass(frozen=True)
class Search:
    """Where the search field of the top bar leads."""

    href: str
    what: str


def search_for(path: str) -> Search:
    """Runs are searched from the pages of runs, operators from everywhere else."""
    if path.startswith("/runs/"):
        return Search("/runs/", "runs")
    return Search("/operators/", "operators")
