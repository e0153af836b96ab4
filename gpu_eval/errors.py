"""The two ways an evaluation can end without a verdict."""

from __future__ import annotations


class UnusableInput(ValueError):
    """An operator or a plan file cannot be used. One sentence that names the file, the line or the field."""


class EvaluatorFault(RuntimeError):
    """The evaluator itself failed: nothing was learnt about the candidate or the operator."""
