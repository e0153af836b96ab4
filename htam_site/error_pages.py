"""What a person sees when a request fails: a sentence and, with a log entry, its id. Never a traceback."""

from __future__ import annotations

import logging
import sys
import uuid

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import requires_csrf_token

log = logging.getLogger(__name__)

TITLES = {
    400: "This request cannot be read",
    403: "Not allowed",
    404: "Nothing here",
    413: "Too large",
    500: "Something broke on our side",
}


def new_error_id() -> str:
    return uuid.uuid4().hex[:12]


def answer(request: HttpRequest, status: int, sentence: str, error_id: str = "") -> HttpResponse:
    """JSON for the API, a page for people."""
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": sentence}, status=status)
    context = {"status": status, "title": TITLES[status], "sentence": sentence, "error_id": error_id}
    return render(request, "error.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return answer(request, 413, "The request carries more data than this server takes.")
    return answer(request, 400, "The server could not read this request.")


@requires_csrf_token
def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    sentence = str(exception) if exception and str(exception) else "Your account may not see or do this."
    return answer(request, 403, sentence)


@requires_csrf_token
def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, 404, "There is no such page or record; it may have been deleted.")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return answer(
        request,
        403,
        "The form's security token was missing or old. Go back, reload and send it again.",
    )


def broken(request: HttpRequest) -> HttpResponse:
    """Last resort: it reads no database and no session, since either may be what broke."""
    error_id = new_error_id()
    log.error("Page error %s at %s", error_id, request.path, exc_info=sys.exc_info())
    if request.path.startswith("/api/"):
        return JsonResponse({"detail": f"{TITLES[500]}; the log has it as {error_id}."}, status=500)
    sentence = "It is in the log; an administrator finds it by this id."
    context = {"status": 500, "title": TITLES[500], "sentence": sentence, "error_id": error_id}
    return render(None, "error.html", context, status=500)  # type: ignore[arg-type]
