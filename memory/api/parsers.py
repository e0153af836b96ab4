"""Bank files as request bodies: read with a bound, parsed by the bank reader so that its checks apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import APIException
from rest_framework.parsers import BaseParser

from memory.bankfile import MAX_BYTES


class TooLarge(APIException):
    status_code = 413
    default_detail = f"A bank file has at most {MAX_BYTES // 1024 // 1024} MiB."


class RawJSONParser(BaseParser):
    """The body as bytes."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        raw: bytes = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TooLarge()
        return raw
