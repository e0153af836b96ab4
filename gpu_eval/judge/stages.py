"""Foreign code runs in stages; whatever one raises becomes a sentence with the operator's own line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from gpu_eval.child import ExpectedFailure
from gpu_eval.errors import UnusableInput

MESSAGE_CHARS = 300
MEMORY_WORDS = ("can't allocate memory", "out of memory", "cannot allocate memory", "not enough memory")


@contextmanager
def operator_stage(what: str, filename: str) -> Iterator[None]:
    """Turn any exception inside into ExpectedFailure("operator"): what, where and why in a sentence."""
    try:
        yield
    except ExpectedFailure:
        raise
    except UnusableInput as error:
        raise ExpectedFailure("operator", f"{filename}: {error}") from error
    except BaseException as error:
        if is_memory_failure(error):
            sentence = f"{filename}: {what} asks for more memory than an operator may use."
        else:
            sentence = f"{filename}{operator_line(error, filename)}: {what} raised {describe(error)}."
        raise ExpectedFailure("operator", sentence) from error


def is_memory_failure(error: BaseException) -> bool:
    """Whether an allocation failed, on the host or the device."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return any(words in text for words in MEMORY_WORDS)


def operator_line(error: BaseException, filename: str) -> str:
    """``, line N`` of the deepest frame inside the operator's file; empty when there is none."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == filename]
    return f", line {frames[-1].lineno}" if frames else ""


def describe(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    lines = str(error).strip().splitlines()
    message = lines[0][:MESSAGE_CHARS].rstrip(".") if lines else ""
    name = type(error).__name__
    return f"{name} ({message})" if message else name
