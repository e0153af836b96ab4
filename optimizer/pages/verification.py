"""The page of results that an older checker judged, and of what judging them again has shown."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from gpu_eval.results import CHECKER_VERSION
from htam_site.roles import Role, require_role, roles_of
from optimizer.api.verification import with_both_verdicts
from optimizer.models import Reverification
from optimizer.serializers import ReverificationSerializer
from optimizer.services import verification

ROWS_PER_PAGE = 50


@require_safe
@require_role(Role.VIEWER)
def page(request: HttpRequest) -> HttpResponse:
    """Outdated winners and second verdicts; the part that changes is asked for again while work is in hand."""
    partial = request.headers.get("HX-Request") == "true"
    template = "runs/verification_state.html" if partial else "runs/verification.html"
    return render(request, template, context(request))


def context(request: HttpRequest) -> dict[str, Any]:
    judged = with_both_verdicts(Reverification.objects.order_by("-id"))
    rows = Paginator(judged, ROWS_PER_PAGE).get_page(request.GET.get("page"))
    outdated = verification.outdated_runs().select_related("operator")
    counts = verification.summary()
    return {
        "checker": CHECKER_VERSION,
        "counts": counts,
        "open": counts["waiting"] + counts["running"],
        "outdated": outdated[:ROWS_PER_PAGE],
        "page": rows,
        "rows": ReverificationSerializer(rows, many=True).data,
        "may_operate": Role.OPERATOR in roles_of(request.user),
    }


@require_POST
@require_role(Role.OPERATOR)
def reverify_winners(request: HttpRequest) -> HttpResponse:
    asked = verification.ask_winners(request.user)
    if asked:
        many = "result is" if len(asked) == 1 else "results are"
        messages.success(request, f"{len(asked)} {many} judged again, between the steps of runs.")
    else:
        messages.info(request, "Every best result was judged by the present checker.")
    return redirect("runs:verification")


@require_POST
@require_role(Role.OPERATOR)
def withdraw_waiting(request: HttpRequest) -> HttpResponse:
    count = verification.withdraw_waiting()
    messages.success(request, f"{count} waiting re-verifications are withdrawn.")
    return redirect("runs:verification")
