"""Static files, and the response headers of every page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware

from htam_site.error_pages import answer

BANK_FILE = re.compile(r"/api/banks/(import|\d+/import|\d+/import/preview)/")  # bodies that may be large
# Everything comes from our own server. Inline styles are allowed because Cytoscape, uPlot and Ace set them;
# inline script is not. blob: workers are Ace's.
POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise with whole bodies: ASGI gathers a streamed file in memory anyway, with a warning each."""

    table: ClassVar[dict[str, Any]] = {}  # every served file; looked for once a process

    def add_files_from_finders(self) -> None:
        if not self.table:
            super().add_files_from_finders()
            self.table.update(self.files)
        self.files.update(self.table)

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        body = b""
        if found.file is not None:
            with found.file as file:
                body = file.read()
        response = HttpResponse(body, status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response


class ContentSecurityPolicy:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


def body_limit(path: str) -> int:
    """The most bytes that a request to ``path`` may carry."""
    return settings.MAX_IMPORT_BYTES if BANK_FILE.fullmatch(path) else settings.MAX_REQUEST_BYTES


class BodyLimit:
    """Refuse a request whose body is larger than any of ours, before a parser reads it into memory.

    The length is the one that the client declares, or that `htam_site.transport.MeasuredBody` counted.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        size = int(request.META.get("CONTENT_LENGTH") or 0)
        limit = body_limit(request.path)
        if size > limit:
            return answer(
                request, 413, f"That is {size / 1e6:.1f} MB; this server takes {limit / 1e6:.0f} MB at most."
            )
        return self.get_response(request)
