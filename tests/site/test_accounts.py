"""Signing in, tokens and people."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client, override_settings
from knox.models import AuthToken

from htam_site.accounts import people as service
from htam_site.roles import Role, roles_of


def test_roles_exist_after_migration(db: None) -> None:
    """A fresh database knows the three roles."""
    assert set(Group.objects.values_list("name", flat=True)) >= {role.value for role in Role}


def test_login_link_signs_in_once(db: None) -> None:
    """The printed link works the first time only."""
    link = service.login_path(service.ensure_admin())
    first, second = Client(), Client()
    assert first.get(link).headers["Location"] == "/"
    assert first.get("/operators/").status_code == 200
    spent = second.get(link)
    assert spent.status_code == 403
    assert b"no longer signs in" in spent.content
    assert second.get("/operators/").status_code == 302


def test_login_link_ends_after_an_hour(db: None) -> None:
    """A link found later in a log is worth nothing."""
    link = service.login_path(service.ensure_admin())
    with override_settings(SESAME_MAX_AGE=timedelta(seconds=-1)):
        assert Client().get(link).status_code == 403


def test_login_link_command(db: None) -> None:
    """The command prints a link that works, and names an unknown user."""
    out = StringIO()
    call_command("login_link", stdout=out)
    path = out.getvalue().strip().split(":", 2)[2].split("/", 1)[1]
    assert Client().get("/" + path).status_code == 302
    with pytest.raises(CommandError, match="no active user called 'ghost'"):
        call_command("login_link", user="ghost")


def test_admin_holds_every_role_and_is_made_once(db: None) -> None:
    """The first account can do everything; a second start makes no second one."""
    assert roles_of(service.ensure_admin()) == frozenset(Role)
    assert service.ensure_admin().pk == service.ensure_admin().pk


def test_logout_needs_post(signed_in: dict[str, Client]) -> None:
    """A link in a mail cannot sign anybody out."""
    client = signed_in["viewer"]
    assert client.get("/logout/").status_code == 405
    client.post("/logout/")
    assert client.get("/operators/").status_code == 302


def test_password_can_be_set_and_used(people: dict[str, User], signed_in: dict[str, Client]) -> None:
    """Somebody who came by link gets a password and stays signed in while setting it."""
    client = signed_in["viewer"]
    answer = client.post(
        "/settings/", {"new_password1": "a long pass phrase", "new_password2": "a long pass phrase"}
    )
    assert answer.status_code == 302
    assert client.get("/settings/").status_code == 200
    assert Client().login(username="viewer", password="a long pass phrase")


def test_token_shows_once_and_is_stored_hashed(people: dict[str, User], signed_in: dict[str, Client]) -> None:
    """The database and later pages do not hold the token itself."""
    client = signed_in["viewer"]
    page = client.post("/settings/tokens/").content.decode()
    stored = AuthToken.objects.get(user=people["viewer"])
    token = page.split('id="fresh-token" readonly value="')[1].split('"')[0]
    assert token not in stored.digest
    assert token not in client.get("/settings/tokens/").content.decode()
    script = Client(headers={"Authorization": f"Token {token}"})
    assert script.get("/api/me/").json()["username"] == "viewer"


def test_revoked_token_ends_at_once(people: dict[str, User], signed_in: dict[str, Client]) -> None:
    """Revoking on the page or over REST shuts the script out; other people's tokens are out of reach."""
    stored, token = AuthToken.objects.create(user=people["viewer"])
    path = f"/settings/tokens/{stored.token_key}/revoke/"
    assert signed_in["operator"].post(path).status_code == 404
    assert signed_in["operator"].delete(f"/api/tokens/{stored.token_key}/").status_code == 404
    assert signed_in["viewer"].post(path).status_code == 302
    assert Client(headers={"Authorization": f"Token {token}"}).get("/api/me/").status_code == 401


def test_people_page_adds_a_person_with_a_link(signed_in: dict[str, Client]) -> None:
    """An administrator adds somebody and hands out a link that works."""
    page = signed_in["superuser"].post("/settings/users/", {"username": "ada", "roles": ["curator"]})
    link = page.content.decode().split('id="fresh-link" readonly value="')[1].split('"')[0]
    newcomer = Client()
    newcomer.get(link.removeprefix("http://testserver"))
    assert newcomer.get("/api/me/").json()["roles"] == ["curator", "viewer"]


@pytest.mark.parametrize("name", ["viewer", "with space", ""])
def test_unusable_user_names_are_refused(signed_in: dict[str, Client], name: str) -> None:
    """A taken or malformed name gets a sentence and adds nobody."""
    before = User.objects.count()
    answer = signed_in["superuser"].post(
        "/api/users/", {"username": name, "roles": []}, content_type="application/json"
    )
    assert answer.status_code == 400
    assert User.objects.count() == before


def test_closed_account_loses_session_and_token(
    people: dict[str, User], signed_in: dict[str, Client]
) -> None:
    """Closing an account ends what is open; nobody closes their own."""
    admin = signed_in["superuser"]
    change = f"/api/users/{people['viewer'].pk}/"
    assert admin.patch(change, {"is_active": False}, content_type="application/json").status_code == 200
    assert signed_in["viewer"].get("/operators/").status_code == 302
    own = f"/api/users/{people['superuser'].pk}/"
    assert admin.patch(own, {"is_active": False}, content_type="application/json").status_code == 400


def test_names_that_differ_by_case_only_are_one(people: dict[str, User]) -> None:
    """Nobody passes for somebody else by a capital letter."""
    with pytest.raises(service.Refused, match="'viewer' already"):
        service.add_person("Viewer", [])
    assert not User.objects.filter(username="Viewer").exists()


def test_guessing_a_password_is_slowed_down(db: None) -> None:
    """After ten failures the right password does not help either, under whatever case; another name does."""
    cache.clear()
    for name in ("carl", "vera"):
        User.objects.create_user(name, password="a-long-password")
    wrong = {"username": "carl", "password": "wrong"}
    assert {Client().post("/login/", wrong).status_code for _ in range(10)} == {200}
    blocked = Client().post("/login/", {"username": "CARL", "password": "a-long-password"})
    assert blocked.status_code == 429
    assert b"Too many sign-ins failed" in blocked.content
    assert int(blocked.headers["Retry-After"]) > 0
    assert Client().post("/login/", {"username": "vera", "password": "a-long-password"}).status_code == 302
    cache.clear()


def test_a_success_clears_the_count(db: None) -> None:
    """A person who mistypes now and then is never locked out."""
    cache.clear()
    User.objects.create_user("carl", password="a-long-password")
    for _ in range(3):
        for _ in range(6):
            Client().post("/login/", {"username": "carl", "password": "wrong"})
        answer = Client().post("/login/", {"username": "carl", "password": "a-long-password"})
        assert answer.status_code == 302
    cache.clear()
