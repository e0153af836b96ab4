"""One poller a run and process, shared by everyone in this process who watches the run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from channels.db import database_sync_to_async

from optimizer.loop import events
from optimizer.models import Run
from optimizer.serializers import EventSerializer

log = logging.getLogger(__name__)
POLL_EVERY = 0.15  # seconds
KEPT = 1000  # newest events held in memory: a socket that lags further reads the database
BATCH = 200

Row = dict[str, Any]


class RunFeed:
    """Follows a run's events while somebody watches. Use `join` and `leave`."""

    def __init__(self, run_id: int) -> None:
        self.run_id = run_id
        self.last = 0
        self.recent: deque[Row] = deque(maxlen=KEPT)
        self.watchers: set[asyncio.Event] = set()
        self.task: asyncio.Task[None] | None = None

    async def rows_after(self, seq: int, limit: int = BATCH) -> list[Row]:
        """Up to ``limit`` events after ``seq``, from memory where it reaches back that far."""
        if self.recent and self.recent[0]["seq"] <= seq + 1:
            start = seq + 1 - self.recent[0]["seq"]
            return [self.recent[index] for index in range(start, min(start + limit, len(self.recent)))]
        if seq >= self.last:
            return []
        return await read_rows(self.run_id, seq, limit)

    async def follow(self) -> None:
        """Poll for ever; a database that is away for a moment is asked again."""
        while True:
            try:
                rows = await read_rows(self.run_id, self.last, BATCH)
            except Exception:
                log.exception("The events of run %s could not be read", self.run_id)
                rows = []
            if rows:
                self.recent.extend(rows)
                self.last = rows[-1]["seq"]
                for watcher in self.watchers:
                    watcher.set()
            if len(rows) < BATCH:
                await asyncio.sleep(POLL_EVERY)


_feeds: dict[tuple[int, int], RunFeed] = {}  # by event loop and run


async def join(run_id: int, watcher: asyncio.Event) -> RunFeed:
    """The run's feed, polling from now on; ``watcher`` is set whenever it has grown."""
    key = (id(asyncio.get_running_loop()), run_id)
    feed = _feeds.get(key)
    if feed is None:
        feed = _feeds[key] = RunFeed(run_id)
    feed.watchers.add(watcher)
    if feed.task is None:
        feed.task = asyncio.create_task(_start(feed))
    return feed


async def _start(feed: RunFeed) -> None:
    feed.last = await newest_seq(feed.run_id)
    for watcher in feed.watchers:
        watcher.set()
    await feed.follow()


def leave(feed: RunFeed, watcher: asyncio.Event) -> None:
    """Stop watching; the last to leave ends the poller."""
    feed.watchers.discard(watcher)
    if not feed.watchers:
        for key, known in list(_feeds.items()):
            if known is feed:
                del _feeds[key]
        if feed.task is not None:
            feed.task.cancel()


@database_sync_to_async
def read_rows(run_id: int, seq: int, limit: int) -> list[Row]:
    return [dict(row) for row in EventSerializer(events.after(run_id, seq, limit), many=True).data]


@database_sync_to_async
def newest_seq(run_id: int) -> int:
    return Run.objects.values_list("event_seq", flat=True).filter(pk=run_id).first() or 0
