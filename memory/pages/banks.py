"""Pages of the memory: the list of banks, and one bank's graph, which is read and edited through REST."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from htam_site.roles import Role, require_role, roles_of
from memory.counts import with_counts
from memory.models import MemoryBank
from memory.policy.conditions import FACTS, OPERATORS


@require_safe
@require_role(Role.VIEWER)
@ensure_csrf_cookie
def bank_list(request: HttpRequest) -> HttpResponse:
    """Every bank with the size of its graph and of its evidence."""
    banks = with_counts(MemoryBank.objects.select_related("created_by").order_by("name"))
    return render(request, "memory/list.html", {"banks": banks})


@require_safe
@require_role(Role.VIEWER)
@ensure_csrf_cookie
def bank_graph(request: HttpRequest, bank_id: int) -> HttpResponse:
    """One bank as a graph and as tables; curators edit it here."""
    bank = get_object_or_404(with_counts(MemoryBank.objects.all()), pk=bank_id)
    return render(request, "memory/graph.html", {"bank": bank, "page_data": page_data(request, bank)})


@require_safe
@require_role(Role.VIEWER)
@ensure_csrf_cookie
def bank_history(request: HttpRequest, bank_id: int) -> HttpResponse:
    """Every change of one bank; curators undo from here."""
    return _ledger_page(request, bank_id, "memory/history.html")


@require_safe
@require_role(Role.VIEWER)
@ensure_csrf_cookie
def bank_review(request: HttpRequest, bank_id: int) -> HttpResponse:
    """What runs propose; curators decide, by keyboard."""
    return _ledger_page(request, bank_id, "memory/review.html")


def _ledger_page(request: HttpRequest, bank_id: int, template: str) -> HttpResponse:
    bank = get_object_or_404(MemoryBank, pk=bank_id)
    return render(request, template, {"bank": bank, "page_data": page_data(request, bank)})


def page_data(request: HttpRequest, bank: MemoryBank) -> dict[str, Any]:
    """What the page's scripts need before their first request."""
    return {
        "bank": {"id": bank.pk, "name": bank.name, "frozen": bank.frozen},
        "may_curate": Role.CURATOR in roles_of(request.user),
        "facts": sorted(FACTS),
        "operators": list(OPERATORS),
    }
