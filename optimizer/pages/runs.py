"""The run list and the live run page. What changes while a page is open arrives by websocket and REST."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from htam_site.roles import Role, require_role, roles_of
from optimizer.api.runs import with_progress, with_row_parts
from optimizer.choices import RunStatus
from optimizer.models import Run
from optimizer.serializers import RunSerializer, StepSerializer
from optimizer.services.verification import outdated_runs

ROWS_PER_PAGE = 50
# What the status filter offers beside single statuses.
STATUS_GROUPS = {
    "live": ("Live", [RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.PAUSED]),
    "ended": ("Ended", [RunStatus.FINISHED, RunStatus.STOPPED, RunStatus.CANCELLED, RunStatus.FAILED]),
}


@require_safe
@require_role(Role.VIEWER)
def run_list(request: HttpRequest) -> HttpResponse:
    """Every run, newest first, filtered by operator name, status and method."""
    runs = filtered(with_progress(Run.objects.order_by("-id")), request)
    page = Paginator(runs, ROWS_PER_PAGE).get_page(request.GET.get("page"))
    return render(
        request,
        "runs/list.html",
        {
            "page": page,
            "filters": request.GET,
            "is_filtered": any(request.GET.get(name) for name in ("q", "status", "method", "operator")),
            "any_runs": page.paginator.count > 0 or Run.objects.exists(),
            "statuses": status_choices(),
            "outdated_winners": outdated_runs().count(),
            "methods": Run.objects.order_by("method").values_list("method", flat=True).distinct(),
        },
    )


def filtered(runs: QuerySet[Run], request: HttpRequest) -> QuerySet[Run]:
    """Runs that the query string asks for. Values that make no sense are ignored."""
    name = request.GET.get("q", "").replace("\x00", "").strip()
    if name:
        runs = runs.filter(operator__name__icontains=name)
    status = request.GET.get("status", "")
    if status in STATUS_GROUPS:
        runs = runs.filter(status__in=STATUS_GROUPS[status][1])
    elif status in RunStatus.values:
        runs = runs.filter(status=status)
    method = request.GET.get("method", "").replace("\x00", "")
    if method:
        runs = runs.filter(method=method)
    operator = request.GET.get("operator", "")
    if operator.isascii() and operator.isdecimal() and len(operator) <= 18:
        runs = runs.filter(operator_id=int(operator))
    return runs


def status_choices() -> list[tuple[str, str]]:
    groups = [(key, label) for key, (label, _) in STATUS_GROUPS.items()]
    return groups + [(status.value, str(status.label)) for status in RunStatus]


@require_safe
@require_role(Role.VIEWER)
@ensure_csrf_cookie
def run_detail(request: HttpRequest, run_id: int) -> HttpResponse:
    """The live page of one run, with the state as of its event cursor in the page itself."""
    run = get_object_or_404(with_progress(Run.objects.all()), pk=run_id)
    return render(request, "runs/detail.html", {"run": run, "page_data": page_data(request, run)})


def page_data(request: HttpRequest, run: Run) -> dict[str, Any]:
    """Run, steps and cursor as the page's scripts read them.

    The run, and so the cursor, is read before the steps: an event that falls between is replayed and changes
    nothing, where the other order would lose it.
    """
    steps = with_row_parts(run.steps.order_by("index"))
    return {
        "run": RunSerializer(run).data,
        "steps": StepSerializer(steps, many=True).data,
        "cursor": run.event_seq,
        "may_operate": Role.OPERATOR in roles_of(request.user),
        "memory_url": reverse("memory:graph", args=[run.bank_id]),
    }
