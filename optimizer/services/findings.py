"""What a second verdict on a plan says of the first, in a word and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.models import CandidateEvaluation


@dataclass(frozen=True)
class Finding:
    """What a second verdict says of the first: ``confirmed``, ``refuted``, ``overturned`` (a failure that is
    correct now) or ``changed`` (another failure), with a sentence."""

    key: str
    sentence: str


def compare(before: CandidateEvaluation, after: CandidateEvaluation) -> Finding:
    """What the second verdict says of the first."""
    was, now = before.verdict, after.verdict
    elsewhere = (
        f" It was judged on {name_of(after)} instead of {name_of(before)}." if moved(before, after) else ""
    )
    if was == "correct" and now == "correct":
        slower = before.outcome == "faster" and after.outcome != "faster"
        said = "Still correct, and no longer faster than PyTorch." if slower else "Still correct."
        return Finding("confirmed", said + elsewhere)
    if was == "correct":
        return Finding("refuted", f"No longer correct: {after.message or words(now)}{elsewhere}")
    if now == "correct":
        return Finding("overturned", f"It was {words(was)}, and is correct now.{elsewhere}")
    if was == now:
        return Finding("confirmed", f"Still {words(now)}.{elsewhere}")
    return Finding("changed", f"It was {words(was)}, and is {words(now)} now.{elsewhere}")


def moved(before: CandidateEvaluation, after: CandidateEvaluation) -> bool:
    return bool(before.device_key and after.device_key) and before.device_key != after.device_key


def name_of(evaluation: CandidateEvaluation) -> str:
    return evaluation.device_key.partition(":")[2] or evaluation.device_key


def words(verdict: str) -> str:
    return verdict.replace("_", " ")
