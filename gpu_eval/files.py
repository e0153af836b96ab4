"""Operator and plan files read from disk, with every failure a sentence."""

from __future__ import annotations

from pathlib import Path

from gpu_eval.errors import UnusableInput
from gpu_eval.limits import MAX_OPERATOR_BYTES, MAX_PLAN_BYTES
from gpu_eval.operators.source import decode_operator
from gpu_eval.plans import PlanError, parse_plan


def read_operator(path: Path) -> str:
    """The text of an operator file. Raises UnusableInput."""
    return decode_operator(read_bytes(path, MAX_OPERATOR_BYTES), path.name)


def read_plan(path: Path) -> str:
    """The text of a plan file. Raises UnusableInput; what the text says is judged later."""
    data = read_bytes(path, MAX_PLAN_BYTES)
    if len(data) > MAX_PLAN_BYTES:
        raise UnusableInput(f"{path.name} is larger than {MAX_PLAN_BYTES // 1000} kB.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{path.name} is not valid UTF-8.") from error


def read_bytes(path: Path, most: int) -> bytes:
    """The file's bytes, at most one more than ``most``."""
    try:
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise UnusableInput(f"{path} cannot be read: {error.strerror or error}.") from error


def plan_language(text: str) -> str:
    """The language a plan declares, or "" where it cannot be parsed."""
    try:
        return parse_plan(text).language
    except PlanError:
        return ""


def device_for(plan: str, wanted: str) -> str:
    """``auto`` means the device that the plan's language is for."""
    return (plan_language(plan) or wanted) if wanted == "auto" else wanted
