"""Bank files as request bodies: read with a bound, parsed by the bank reader so that its checks apply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import BaseParser, MultiPartParser
from rest_framework.request import Request

from memory.limits import MAX_BANK_BYTES


class TooLarge(APIException):
    status_code = 413
    default_detail = f"A bank file has at most {MAX_BANK_BYTES // 1024 // 1024} MiB."


class RawJSONParser(BaseParser):
    """The body as bytes."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        raw: bytes = stream.read(MAX_BANK_BYTES + 1)
        if len(raw) > MAX_BANK_BYTES:
            raise TooLarge()
        return raw


class RawMarkdownParser(RawJSONParser):
    media_type = "text/markdown"


FILE_PARSERS = [RawJSONParser, RawMarkdownParser, MultiPartParser]


def file_of(request: Request) -> bytes:
    """The bank file of a request: its body, or the form field `file`."""
    data: Any = request.data
    if isinstance(data, bytes):
        return data
    upload = data.get("file")
    if upload is None or isinstance(upload, str):
        raise ValidationError({"file": ["Send the bank file as the field 'file'."]})
    if upload.size > MAX_BANK_BYTES:
        raise TooLarge()
    return upload.read()
