"""Turning the services' refusals into API errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rest_framework.exceptions import APIException, ValidationError

from gpu_eval.errors import UnusableInput
from optimizer.services.operators import Refused


class Conflict(APIException):
    status_code = 409
    default_detail = "This cannot be done now."


@contextmanager
def refusals(conflict: bool = False) -> Iterator[None]:
    """Answer 400 (409 with ``conflict``) with the sentence of what was refused."""
    try:
        yield
    except UnusableInput as error:
        raise ValidationError({"detail": str(error)}) from None
    except Refused as error:
        raise (Conflict(str(error)) if conflict else ValidationError({"detail": str(error)})) from None
