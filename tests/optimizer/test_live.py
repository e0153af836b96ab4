"""The websocket of a run: order, cursor, back-pressure, and who may watch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.db import connections

from htam_site.asgi import application
from optimizer.live import consumers, feed
from optimizer.loop import events
from optimizer.models import Run
from tests.optimizer.support import make_run, person

pytestmark = pytest.mark.django_db(transaction=True)
ORIGIN = (b"origin", b"http://localhost")


def session_of(user: User) -> str:
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return str(store.session_key)


class Page:
    """A page's end of the socket. It acknowledges what it takes unless told not to."""

    def __init__(
        self, run_id: int, session: str = "", after: int | None = None, origin: Any = ORIGIN
    ) -> None:
        query = "" if after is None else f"?after={after}"
        headers = [(b"host", b"localhost"), origin]
        if session:
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}".encode()))
        self.socket = WebsocketCommunicator(application, f"/ws/runs/{run_id}/{query}", headers=headers)
        self.seqs: list[int] = []
        self.reason = ""

    async def __aenter__(self) -> Page:
        self.connected, self.code = await self.socket.connect()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.socket.disconnect()

    async def take(self, count: int, acknowledge: bool = True) -> list[int]:
        """Read until ``count`` events have come."""
        while len(self.seqs) < count:
            message = await self.socket.receive_json_from(timeout=5)
            assert message["type"] == "events"
            self.seqs += [event["seq"] for event in message["events"]]
            if acknowledge and self.seqs:
                await self.socket.send_json_to({"ack": self.seqs[-1]})
        return self.seqs

    async def refused(self) -> tuple[str, int]:
        """The reason and the close code, skipping events sent before."""
        while True:
            message = await self.socket.receive_output(timeout=5)
            if message["type"] == "websocket.close":
                return self.reason, message["code"]
            data = json.loads(message["text"])
            if data["type"] == "refused":
                self.reason = data["reason"]


@pytest.fixture(autouse=True)
async def no_open_connections() -> AsyncIterator[None]:
    """The thread that serves sockets keeps its database connection, which would hold the test database."""
    yield
    await database_sync_to_async(connections.close_all)()


@pytest.fixture
def run(transactional_db: None) -> Run:
    return make_run()


@pytest.fixture
def viewer(transactional_db: None) -> User:
    return person("viewer")


@pytest.fixture
def quick_guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Permissions are looked at again every 0.2 s instead of every 10 s."""
    monkeypatch.setattr(consumers.RunConsumer, "recheck_every", 0.2)
    return


def add_now(run: Run, count: int) -> None:
    events.append(run.pk, [("log", {"text": f"line {number}"}) for number in range(count)])


add = database_sync_to_async(add_now)


async def test_events_arrive_in_order_and_go_on(run: Run, viewer: User) -> None:
    """What is stored comes first, what is appended later follows."""
    await add(run, 3)
    async with Page(run.pk, await database_sync_to_async(session_of)(viewer)) as page:
        assert await page.take(3) == [1, 2, 3]
        await add(run, 2)
        assert await page.take(5) == [1, 2, 3, 4, 5]


async def test_a_reconnect_resumes_at_the_cursor(run: Run, viewer: User) -> None:
    """A dropped socket loses nothing and repeats nothing."""
    session = await database_sync_to_async(session_of)(viewer)
    await add(run, 4)
    async with Page(run.pk, session) as page:
        await page.take(4)
    await add(run, 3)
    async with Page(run.pk, session, after=4) as page:
        assert await page.take(3) == [5, 6, 7]


async def test_a_late_page_gets_what_the_shared_poller_has_passed(run: Run, viewer: User) -> None:
    """Pages with different cursors share one poller and each get their own rows."""
    session = await database_sync_to_async(session_of)(viewer)
    await add(run, 2)
    async with Page(run.pk, session, after=2) as first:
        await add(run, 2)
        assert await first.take(2) == [3, 4]
        async with Page(run.pk, session) as second:
            assert await second.take(4) == [1, 2, 3, 4]
            assert len(feed._feeds) == 1
    assert feed._feeds == {}


async def test_a_page_that_does_not_acknowledge_is_not_drowned(
    run: Run, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sending stops at the window and goes on with the acknowledgement."""
    monkeypatch.setattr(consumers, "WINDOW", 5)
    await add(run, 12)
    async with Page(run.pk, await database_sync_to_async(session_of)(viewer)) as page:
        assert await page.take(5, acknowledge=False) == [1, 2, 3, 4, 5]
        assert await page.socket.receive_nothing(timeout=0.5)
        await page.socket.send_json_to({"ack": 5})
        assert await page.take(12) == list(range(1, 13))


@pytest.mark.parametrize(
    "text", [" ", "{", "[]", '{"ack": "x"}', '{"ack": 99999}', '{"ack": true}', "x" * 5000]
)
async def test_nonsense_from_a_page_is_ignored(run: Run, viewer: User, text: str) -> None:
    """A page can send what it likes; its socket goes on."""
    async with Page(run.pk, await database_sync_to_async(session_of)(viewer)) as page:
        await page.socket.send_to(text_data=text)
        await add(run, 1)
        assert await page.take(1) == [1]


async def test_anonymous_is_refused(run: Run) -> None:
    """Without a session there is a reason and a code, and no event."""
    await add(run, 1)
    async with Page(run.pk) as page:
        assert await page.refused() == ("Your session has ended; sign in again.", 4401)
        assert page.seqs == []


async def test_a_person_without_a_role_is_refused(run: Run) -> None:
    """Being signed in is not enough."""
    nobody = await database_sync_to_async(person)("")
    async with Page(run.pk, await database_sync_to_async(session_of)(nobody)) as page:
        assert (await page.refused())[1] == 4403


@pytest.mark.parametrize("role", ["viewer", "operator", "curator"])
async def test_every_role_may_watch(run: Run, role: str) -> None:
    """All three roles read."""
    someone = await database_sync_to_async(person)(role)
    await add(run, 1)
    async with Page(run.pk, await database_sync_to_async(session_of)(someone)) as page:
        assert await page.take(1) == [1]


async def test_a_run_that_does_not_exist_is_refused(run: Run, viewer: User) -> None:
    """A foreign id gets a reason and its own code."""
    async with Page(run.pk + 1000, await database_sync_to_async(session_of)(viewer)) as page:
        assert await page.refused() == ("There is no such run.", 4404)


async def test_a_foreign_origin_is_turned_away(run: Run, viewer: User) -> None:
    """Another site's page cannot open the socket with our cookie."""
    session = await database_sync_to_async(session_of)(viewer)
    page = Page(run.pk, session, origin=(b"origin", b"http://evil.example"))
    connected, _ = await page.socket.connect()
    assert not connected


async def test_another_port_of_the_same_host_is_foreign(run: Run, viewer: User) -> None:
    """Cookies do not tell ports apart, so the socket must: another program's page gets nothing."""
    session = await database_sync_to_async(session_of)(viewer)
    page = Page(run.pk, session, origin=(b"origin", b"http://localhost:9999"))
    connected, _ = await page.socket.connect()
    assert not connected


async def test_signing_out_closes_an_open_socket(run: Run, viewer: User, quick_guard: None) -> None:
    """A session that ended counts within the next look."""
    session = await database_sync_to_async(session_of)(viewer)
    async with Page(run.pk, session) as page:
        store = import_module(settings.SESSION_ENGINE).SessionStore(session)
        await database_sync_to_async(store.delete)()
        assert (await page.refused())[1] == 4401


async def test_a_changed_password_closes_an_open_socket(run: Run, viewer: User, quick_guard: None) -> None:
    """The session's hash is verified again, not only that the session exists."""
    async with Page(run.pk, await database_sync_to_async(session_of)(viewer)) as page:
        viewer.set_password("another long pass phrase")
        await database_sync_to_async(viewer.save)()
        assert (await page.refused())[1] == 4401


async def test_a_revoked_role_closes_an_open_socket(run: Run, viewer: User, quick_guard: None) -> None:
    """Taking a role away ends what it allowed."""
    async with Page(run.pk, await database_sync_to_async(session_of)(viewer)) as page:
        await database_sync_to_async(viewer.groups.clear)()
        assert (await page.refused())[1] == 4403


async def test_a_deleted_run_closes_an_open_socket(run: Run, viewer: User, quick_guard: None) -> None:
    """A page whose run is gone is told so."""
    async with Page(run.pk, await database_sync_to_async(session_of)(viewer)) as page:
        await database_sync_to_async(run.delete)()
        assert (await page.refused())[1] == 4404
