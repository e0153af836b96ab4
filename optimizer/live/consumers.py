"""The websocket of one page that follows one run."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from optimizer.live import feed as feeds
from optimizer.live.access import Refusal, refusal

log = logging.getLogger(__name__)
WINDOW = 600  # events sent and not yet acknowledged, at most: a slow page is not drowned
RECHECK_EVERY = 10.0  # seconds between looks at whether the watcher still may
LONGEST_MESSAGE = 200  # an acknowledgement is all a page sends


class RunConsumer(AsyncWebsocketConsumer):
    """Sends ``{"type": "events", "events": [...], "last": SEQ}`` after the page's cursor (``?after=SEQ``), in
    order, without gap or repetition. The page answers ``{"ack": SEQ}``. A page that may not watch gets
    ``{"type": "refused", "reason"}`` and a close code (4401, 4403, 4404), at the door or later.
    """

    recheck_every = RECHECK_EVERY

    async def connect(self) -> None:
        self.run_id = int(self.scope["url_route"]["kwargs"]["run_id"])
        self.sent = self.acknowledged = cursor_of(self.scope["query_string"])
        self.changed = asyncio.Event()
        self.feed: feeds.RunFeed | None = None
        self.tasks: list[asyncio.Task[None]] = []
        await self.accept()
        if no := await self.look():
            await self.refuse(no)
            return
        self.feed = await feeds.join(self.run_id, self.changed)
        self.tasks = [asyncio.create_task(self.pump()), asyncio.create_task(self.guard())]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self.feed is not None:
            feeds.leave(self.feed, self.changed)
            self.feed = None

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        acknowledged = acknowledged_by(text_data)
        if acknowledged is not None and self.acknowledged < acknowledged <= self.sent:
            self.acknowledged = acknowledged
            self.changed.set()

    async def pump(self) -> None:
        """Send what is new, as far as the page has acknowledged."""
        await self.send_rows([])  # tells the page at once that it is let in
        while True:
            self.changed.clear()
            room = WINDOW - (self.sent - self.acknowledged)
            assert self.feed is not None
            rows = await self.feed.rows_after(self.sent, min(room, feeds.BATCH)) if room > 0 else []
            if rows:
                await self.send_rows(rows)
            else:
                await self.changed.wait()

    async def send_rows(self, rows: list[feeds.Row]) -> None:
        if rows:
            self.sent = rows[-1]["seq"]
        await self.send(json.dumps({"type": "events", "events": rows, "last": self.sent}))

    async def guard(self) -> None:
        """Look from time to time whether the watcher still may."""
        while True:
            await asyncio.sleep(self.recheck_every)
            if no := await self.look():
                await self.refuse(no)
                return

    async def look(self) -> Refusal | None:
        session = self.scope.get("session")
        return await database_sync_to_async(refusal)(session.session_key if session else None, self.run_id)

    async def refuse(self, no: Refusal) -> None:
        user: Any = self.scope.get("user")
        log.info("Socket of run %s for %s refused: %s", self.run_id, user, no.reason)
        for task in self.tasks:
            if task is not asyncio.current_task():
                task.cancel()
        await self.send(json.dumps({"type": "refused", "reason": no.reason}))
        await self.close(no.code)


def cursor_of(query: bytes) -> int:
    """The page's cursor; 0 where it names none that makes sense."""
    text = parse_qs(query.decode("latin-1")).get("after", ["0"])[0]
    return int(text) if text.isdecimal() and len(text) <= 18 else 0


def acknowledged_by(text: str | None) -> int | None:
    """The sequence number that a message acknowledges; None for any other message."""
    if not text or len(text) > LONGEST_MESSAGE:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    seq = value.get("ack") if isinstance(value, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None


class Nowhere(AsyncWebsocketConsumer):
    """Refuses a socket to an address that does not exist, as a page of that address would be."""

    async def connect(self) -> None:
        await self.close()
