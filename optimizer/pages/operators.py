"""Pages of operators: the list, an upload, and one operator with its health, runs and best kernel."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, F, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from gpu_eval.errors import UnusableInput
from htam_site.roles import Role, require_role
from optimizer.choices import OperatorStatus
from optimizer.models import HealthReport, Operator, Run
from optimizer.pages.health import device_panel, summary
from optimizer.pages.upload import UploadForm
from optimizer.services import operators
from optimizer.services.operators import Refused

ROWS = 50
ORDERS: dict[str, list[Any]] = {
    "name": ["name"],
    "newest": ["-created_at", "name"],
    "speedup": [F("best_speedup").desc(nulls_last=True), "name"],
    "runs": ["-runs_count", "name"],
}


def table_rows() -> QuerySet[Operator]:
    """Operators with what a row shows; reports come without their graphs, which are large."""
    best = confirmed_best(Run.objects.filter(operator=OuterRef("pk"))).order_by("-best_speedup")
    return Operator.objects.annotate(
        runs_count=Count("runs"),
        best_speedup=Subquery(best.values("best_speedup")[:1]),
        best_low=Subquery(best.values("best_speedup_low")[:1]),
        best_high=Subquery(best.values("best_speedup_high")[:1]),
    ).prefetch_related(Prefetch("health_reports", HealthReport.objects.defer("graph")))


def confirmed_best(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with a best kernel that no newer checker refuted."""
    return runs.filter(best_candidate__isnull=False, best_candidate__refuted_by__isnull=True)


def matching(rows: QuerySet[Operator], request: HttpRequest) -> QuerySet[Operator]:
    """Rows that the query string asks for, in its order."""
    text = asked(request, "q")
    if text:
        rows = rows.filter(
            Q(name__icontains=text) | Q(description__icontains=text) | Q(family__icontains=text)
        )
    for field in ("status", "family"):
        if value := asked(request, field):
            rows = rows.filter(**{field: value})
    return rows.order_by(*ORDERS.get(request.GET.get("order", ""), ORDERS["name"]))


def asked(request: HttpRequest, name: str) -> str:
    """A query parameter without NUL, which PostgreSQL refuses."""
    return request.GET.get(name, "").replace("\x00", "").strip()


@require_role(Role.OPERATOR)
def listing(request: HttpRequest) -> HttpResponse:
    page = Paginator(matching(table_rows(), request), ROWS).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": [{"operator": operator, **summary(operator.health_reports.all())} for operator in page],
        "statuses": OperatorStatus.choices,
        "families": Operator.objects.exclude(family="")
        .order_by("family")
        .values_list("family", flat=True)
        .distinct(),
        "filtered": any(request.GET.get(name) for name in ("q", "status", "family")),
    }
    partial = request.headers.get("HX-Request") == "true"
    return render(request, "operators/table.html" if partial else "operators/list.html", context)


@require_role(Role.OPERATOR, read=Role.OPERATOR)
def new(request: HttpRequest) -> HttpResponse:
    """Upload by file or paste. Whatever is unusable comes back with its sentence, and nothing is saved."""
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method != "POST":
        return render(request, "operators/new.html", {"form": form})
    operator = form.is_valid() and save(form, request)
    if not operator:
        return render(request, "operators/new.html", {"form": form}, status=400)
    return redirect("operators:detail", operator.pk)


def save(form: UploadForm, request: HttpRequest) -> Operator | None:
    """The new operator, or None with the reason on the form."""
    try:
        fields = form.operator_fields()
        return operators.create_operator(owner=request.user, **fields)
    except (UnusableInput, Refused) as error:
        form.add_error(None, str(error))
        return None


@require_role(Role.OPERATOR)
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    operator = get_object_or_404(table_rows().select_related("owner", "override_by"), pk=pk)
    runs = operator.runs.select_related("bank", "created_by", "best_candidate")[:20]
    best = (
        confirmed_best(operator.runs.all())
        .select_related("best_candidate__step")
        .order_by(F("best_speedup").desc(nulls_last=True))
        .first()
    )
    context = {
        "operator": operator,
        "panels": [device_panel(report) for report in operator.health_reports.all()],
        "runs": runs,
        "best_run": best,
        "may_override": operator.status == OperatorStatus.BLOCKED
        and operators.may_override(operator, request.user),
    }
    return render(request, "operators/detail.html", context)


@require_POST
@require_role(Role.OPERATOR)
def override(request: HttpRequest, pk: int) -> HttpResponse:
    operator = get_object_or_404(Operator, pk=pk)
    try:
        operators.override_gate(operator, request.user, request.POST.get("reason", ""))
        messages.success(request, "Runs may start. The override shows beside every result.")
    except Refused as error:
        messages.error(request, str(error))
    return redirect("operators:detail", pk)


@require_POST
@require_role(Role.OPERATOR)
def inspect_again(request: HttpRequest, pk: int) -> HttpResponse:
    operator = get_object_or_404(Operator, pk=pk)
    operators.inspect_again(operator, "auto")
    messages.success(request, "The inspection is queued.")
    return redirect("operators:detail", pk)


@require_POST
@require_role(Role.OPERATOR)
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    operator = get_object_or_404(Operator, pk=pk)
    try:
        operators.delete_operator(operator)
    except Refused as error:
        messages.error(request, str(error))
        return redirect("operators:detail", pk)
    messages.success(request, f"{operator.name} is deleted.")
    return redirect("operators:list")


urlpatterns = [
    path("", listing, name="list"),
    path("new/", new, name="new"),
    path("<int:pk>/", detail, name="detail"),
    path("<int:pk>/override/", override, name="override"),
    path("<int:pk>/inspect/", inspect_again, name="inspect"),
    path("<int:pk>/delete/", delete, name="delete"),
]
