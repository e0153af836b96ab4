"""Who may do what: every route of pages and API, for every role. A route that is not listed here fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from knox.models import AuthToken

HTTP_METHODS = {"get", "post", "put", "patch", "delete"}
ROLES = ["anonymous", "nobody", "viewer", "operator", "curator", "superuser"]
ALLOWED = {
    "public": set(ROLES),
    "signed in": set(ROLES) - {"anonymous"},
    "viewer": {"viewer", "operator", "curator", "superuser"},
    "operator": {"operator", "superuser"},
    "curator": {"curator", "superuser"},
    "superuser": {"superuser"},
}
READ = {"get": "viewer"}
CURATED = {"get": "viewer", "post": "curator"}
CURATED_PART = {"get": "viewer", "patch": "curator"}

# Route -> method -> who. Routes are written without regular expressions: {pk} stands for any argument.
EXPECTED: dict[str, dict[str, str]] = {
    "": {"get": "signed in"},  # only sends on to the runs
    "runs/": READ,
    "runs/new/": {"get": "operator", "post": "operator"},
    "runs/new/facts/": READ,
    "runs/verification/": READ,
    "runs/verification/all/": {"post": "operator"},
    "runs/verification/withdraw/": {"post": "operator"},
    "runs/{run_id}/": READ,
    "operators/": READ,
    "operators/new/": {"get": "operator", "post": "operator"},
    "operators/{pk}/": READ,
    "operators/{pk}/override/": {"post": "operator"},
    "operators/{pk}/inspect/": {"post": "operator"},
    "operators/{pk}/delete/": {"post": "operator"},
    "devices/": READ,
    "memory/": READ,
    "memory/{bank_id}/": READ,
    "memory/{bank_id}/history/": READ,
    "memory/{bank_id}/review/": READ,
    "login/": {"get": "public", "post": "public"},
    "login/link/": {"get": "public"},
    "logout/": {"post": "signed in"},
    "healthz": {"get": "public"},
    "settings/": {"get": "signed in", "post": "signed in"},
    "settings/tokens/": {"get": "viewer", "post": "viewer"},
    "settings/tokens/{key}/revoke/": {"post": "signed in"},
    "settings/users/": {"get": "superuser", "post": "superuser"},
    "settings/users/{pk}/": {"post": "superuser"},
    "settings/users/{pk}/link/": {"post": "superuser"},
    "api/operators/": {"get": "viewer", "post": "operator"},
    "api/operators/check/": {"post": "operator"},
    "api/operators/{pk}/": {"get": "viewer", "patch": "operator", "delete": "operator"},
    "api/operators/{pk}/estimate/": READ,
    "api/operators/{pk}/inspect/": {"post": "operator"},
    "api/operators/{pk}/override/": {"post": "operator"},
    "api/runs/": {"get": "viewer", "post": "operator"},
    "api/runs/{pk}/": READ,
    "api/runs/{pk}/cancel/": {"post": "operator"},
    "api/runs/{pk}/events/": READ,
    "api/runs/{pk}/export/": READ,
    "api/runs/{pk}/pause/": {"post": "operator"},
    "api/runs/{pk}/resume/": {"post": "operator"},
    "api/runs/{pk}/steps/": READ,
    "api/runs/{run_pk}/steering/": {"get": "viewer", "post": "operator"},
    "api/runs/{run_pk}/steering/{pk}/": {"delete": "operator"},
    "api/runs/{pk}/stop/": {"post": "operator"},
    "api/steps/{pk}/": READ,
    "api/candidates/{pk}/": READ,
    "api/candidates/{pk}/diff/": READ,
    "api/evaluations/{pk}/": READ,
    "api/evaluations/{pk}/reverify/": {"post": "operator"},
    "api/reverifications/": {"get": "viewer", "post": "operator"},
    "api/reverifications/summary/": READ,
    "api/reverifications/{pk}/": {"get": "viewer", "delete": "operator"},
    "api/workers/": READ,
    "api/devices/": READ,
    "api/banks/": CURATED,
    "api/banks/import/": {"post": "curator"},
    "api/banks/{pk}/": CURATED_PART,
    "api/banks/{pk}/clone/": {"post": "curator"},
    "api/banks/{pk}/compare/": READ,
    "api/banks/{pk}/diff/": READ,
    "api/banks/{pk}/export/": READ,
    "api/banks/{pk}/graph/": READ,
    "api/banks/{pk}/history/": READ,
    "api/banks/{pk}/import/": {"post": "curator"},
    "api/banks/{pk}/import/preview/": {"post": "curator"},
    "api/banks/{pk}/merge/": {"post": "curator"},
    "api/banks/{pk}/preview/": {"post": "viewer"},
    "api/banks/{pk}/revert/": {"post": "curator"},
    "api/banks/{pk}/timeline/": READ,
    "api/directions/": CURATED,
    "api/directions/{pk}/": CURATED_PART,
    "api/directions/{pk}/merge/": {"post": "curator"},
    "api/directions/{pk}/numbers/": READ,
    "api/directions/{pk}/split/": {"post": "curator"},
    "api/strategies/": CURATED,
    "api/strategies/{pk}/": CURATED_PART,
    "api/strategies/{pk}/merge/": {"post": "curator"},
    "api/strategies/{pk}/move/": {"post": "curator"},
    "api/strategies/{pk}/numbers/": READ,
    "api/strategies/{pk}/split/": {"post": "curator"},
    "api/edges/": CURATED,
    "api/edges/{pk}/": CURATED_PART,
    "api/edges/{pk}/numbers/": READ,
    "api/evidence/": READ,
    "api/evidence/exclude/": {"post": "curator"},
    "api/evidence/include/": {"post": "curator"},
    "api/evidence/{pk}/": CURATED_PART,
    "api/changes/{pk}/": READ,
    "api/changes/{pk}/revert/": {"post": "curator"},
    "api/proposals/": READ,
    "api/proposals/{pk}/": READ,
    "api/proposals/{pk}/accept/": {"post": "curator"},
    "api/proposals/{pk}/reject/": {"post": "curator"},
    "api/me/": READ,
    "api/tokens/": {"get": "viewer", "post": "viewer"},
    "api/tokens/{key}/": {"delete": "viewer"},
    "api/users/": {"get": "superuser", "post": "superuser"},
    "api/users/{pk}/": {"get": "superuser", "patch": "superuser"},
    "api/users/{pk}/login-link/": {"post": "superuser"},
    "api/schema/": READ,
    "api/docs/": READ,
}

API_ROUTES = sorted(
    route for route in EXPECTED if route.startswith("api/") and route not in {"api/docs/", "api/schema/"}
)

# First word of a route -> the thing whose number its argument is.
THING_OF = {
    "runs": "run",
    "operators": "operator",
    "memory": "bank",
    "steps": "step",
    "candidates": "candidate",
    "evaluations": "evaluation",
    "reverifications": "reverification",
    "banks": "bank",
    "directions": "direction",
    "strategies": "strategy",
    "edges": "edge",
    "evidence": "evidence",
    "changes": "change",
    "proposals": "proposal",
}


def routes() -> Iterator[tuple[str, URLPattern]]:
    yield from walk(get_resolver().url_patterns, "")


def walk(patterns: list[Any], prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        route = prefix + plain(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, route)
        else:
            yield route, pattern


def plain(pattern: str) -> str:
    """``^runs/(?P<pk>[^/.]+)/$`` and ``runs/<int:pk>/`` as ``runs/{pk}/``."""
    pattern = re.sub(r"\(\?P<(\w+)>(?:[^()\[\]]|\[[^\]]*\])*\)", r"{\1}", pattern)
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern).strip("^$")


def methods_of(pattern: URLPattern) -> set[str] | None:
    """The methods a class-based API view answers; None where only calling it would tell."""
    actions = getattr(pattern.callback, "actions", None)
    if actions:
        return set(actions) & HTTP_METHODS
    view = getattr(pattern.callback, "cls", None)
    return {name for name in HTTP_METHODS if hasattr(view, name)} if view else None


def address(route: str, things: SimpleNamespace, people: dict[str, User]) -> str:
    words = route.removeprefix("api/").split("/")
    thing = getattr(things, THING_OF.get(words[0], ""), None)
    number = thing.pk if thing else people["nobody"].pk
    return "/" + re.sub(r"\{\w+\}", str(number), route)


def refused(status: int, location: str) -> bool:
    return status in {401, 403} or (status in {301, 302} and location.startswith("/login/?next="))


def test_every_route_states_who_may_use_it() -> None:
    """A new route cannot slip in without a decision about roles."""
    assert sorted(route for route, _ in routes()) == sorted(EXPECTED)


def test_every_method_of_an_api_route_is_listed() -> None:
    """A new method on an old route cannot either."""
    for route, pattern in routes():
        methods = methods_of(pattern)
        assert methods is None or methods == set(EXPECTED[route]), route


@pytest.mark.parametrize("route", sorted(EXPECTED))
def test_roles(
    route: str, signed_in: dict[str, Client], people: dict[str, User], things: SimpleNamespace
) -> None:
    """Each role gets exactly what the table says, and an allowed request never breaks."""
    path = address(route, things, people)
    for method, who in EXPECTED[route].items():
        for role in ROLES:
            with transaction.atomic():
                answer = (
                    getattr(signed_in[role], method)(path, data={}, content_type="application/json")
                    if (method != "get")
                    else signed_in[role].get(path)
                )
                transaction.set_rollback(True)
            was_refused = refused(answer.status_code, answer.headers.get("Location", ""))
            if route == "login/link/":
                was_refused = False  # it refuses a link without a token by 403, whoever asks
            assert was_refused == (role not in ALLOWED[who]), (method, path, role, answer.status_code)
            assert answer.status_code < 500, (method, path, role)


@pytest.mark.parametrize("route", API_ROUTES)
def test_api_answers_strangers_with_json(
    route: str, things: SimpleNamespace, people: dict[str, User]
) -> None:
    """A script without a token gets 401 and a sentence, not a redirect to the login page."""
    method = next(iter(EXPECTED[route]))
    answer = getattr(Client(), method)(address(route, things, people))
    assert answer.status_code == 401
    assert answer.json()["detail"]


def test_pages_send_strangers_to_the_login() -> None:
    """A person without a session comes back to the page after signing in."""
    answer = Client().get("/operators/?q=soft")
    assert answer.headers["Location"] == "/login/?next=/operators/%3Fq%3Dsoft"


def test_cookie_requests_need_the_csrf_token(people: dict[str, User]) -> None:
    """Another site cannot make a signed-in browser change anything over the API."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(people["operator"])
    answer = client.post("/api/operators/", {"name": "x", "source": ""}, content_type="application/json")
    assert answer.status_code == 403
    assert "CSRF" in answer.json()["detail"]


def test_page_forms_need_the_csrf_token(people: dict[str, User]) -> None:
    """The same for forms; the refusal is a page with a sentence."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(people["operator"])
    answer = client.post("/operators/new/", {"name": "x"})
    assert answer.status_code == 403
    assert b"security token" in answer.content


def test_tokens_work_without_a_cookie(people: dict[str, User]) -> None:
    """A script with a token has its owner's roles, and no CSRF token is wanted of it."""
    _, token = AuthToken.objects.create(user=people["operator"])
    client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Token {token}"})
    assert client.get("/api/me/").json()["roles"] == ["operator", "viewer"]
    answer = client.post("/api/operators/check/", {"source": "x ="}, content_type="application/json")
    assert answer.status_code == 200
    assert client.post("/api/banks/", {"name": "b"}, content_type="application/json").status_code == 403


def test_a_revoked_role_ends_at_once(signed_in: dict[str, Client], people: dict[str, User]) -> None:
    """An open session loses what its owner lost."""
    assert signed_in["viewer"].get("/operators/").status_code == 200
    people["viewer"].groups.clear()
    assert signed_in["viewer"].get("/operators/").status_code == 403
