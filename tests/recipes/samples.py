"""The sample operators, loaded with sizes of a test's choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

SAMPLES = sorted((Path(__file__).parents[2] / "optimizer" / "samples").glob("[a-z]*.py"))


def load_sample(path: Path, **constants: Any) -> tuple[nn.Module, list[Any]]:
    """The module and its inputs, with module-level constants of these names replaced."""
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    namespace.update({name: value for name, value in constants.items() if name in namespace})
    return namespace["Model"](*namespace["get_init_inputs"]()), namespace["get_inputs"]()
