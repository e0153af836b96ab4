"""API errors are one JSON object with a sentence in ``detail``; unexpected ones carry an id from the log."""

from __future__ import annotations

import logging
from typing import Any

from rest_framework.response import Response
from rest_framework.views import exception_handler

from htam_site.error_pages import new_error_id

log = logging.getLogger(__name__)


def api_exception_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    response = exception_handler(error, context)
    if response is not None:
        return response
    if isinstance(error, RecursionError):
        return Response({"detail": "The body is nested too deeply; send plain JSON."}, status=400)
    error_id = new_error_id()
    log.exception("API error %s", error_id)
    return Response({"detail": f"Something broke on our side; the log has it as {error_id}."}, status=500)
