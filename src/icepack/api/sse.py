"""News of jobs for those who listen: one look at the store each second, however many they are."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.concurrency import run_in_threadpool

from icepack.domain.access import Scopes, covered
from icepack.domain.job import JobEvent, JobProgress
from icepack.domain.ports.access import Board
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
QUIET_SECONDS = 15.0
LOOK_BACK = 100
"""Numbers are given before they are committed, so one may show up after a later one."""
MOST_WAITING = 1000
REPLAYED = 1000


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of news; only events have a number to resume from."""

    kind: str
    table: TableId
    document: dict[str, Any]
    number: int | None = None


class News:
    def __init__(
        self, board: Board, *, look_seconds: float = LOOK_SECONDS, quiet_seconds: float = QUIET_SECONDS
    ) -> None:
        self._board = board
        self._look_seconds = look_seconds
        self._quiet_seconds = quiet_seconds
        self._listeners: set[asyncio.Queue[Item | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._newest = 0
        self._progress: dict[UUID, JobProgress] = {}
        self._closed = False

    async def listen(
        self, scopes: Scopes, after: int | None, still_welcome: Callable[[], bool]
    ) -> AsyncGenerator[Item | None, None]:
        """Every change from now on, or after the event with that number; None where there was none for a while.

        The first is None, too: whoever has it misses nothing that happens afterwards.
        """
        queue: asyncio.Queue[Item | None] = asyncio.Queue(MOST_WAITING)
        await self._join(queue)
        told = after or 0
        try:
            yield None
            for item in await self._replay(after):
                told = max(told, item.number or 0)
                if covered(scopes, item.table):
                    yield item
            while not self._closed:
                try:
                    news = await asyncio.wait_for(queue.get(), self._quiet_seconds)
                except TimeoutError:
                    if not await run_in_threadpool(still_welcome):
                        return
                    yield None
                    continue
                if news is None:
                    return
                if covered(scopes, news.table) and (after is None or not news.number or news.number > told):
                    yield news
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        """Ends every stream; only from the event loop's thread."""
        self._closed = True
        for queue in self._listeners:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(None)
        if self._task is not None:
            self._task.cancel()

    async def _join(self, queue: asyncio.Queue[Item | None]) -> None:
        if not self._listeners:
            self._newest = await run_in_threadpool(self._board.newest_event)
            self._seen.clear()
            self._progress.clear()
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_on())

    async def _replay(self, after: int | None) -> list[Item]:
        if after is None:
            return []
        return [_event(event) for event in await run_in_threadpool(self._board.events_after, after, limit=REPLAYED)]

    async def _look_on(self) -> None:
        while self._listeners and not self._closed:
            try:
                for item in await run_in_threadpool(self._look):
                    self._spread(item)
            except EnvironmentFault as exc:
                log.warning("no news for a moment: %s", exc)
            await asyncio.sleep(self._look_seconds)

    def _spread(self, item: Item) -> None:
        for queue in list(self._listeners):
            try:
                queue.put_nowait(item)
            except asyncio.QueueFull:
                self._listeners.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)

    def _look(self) -> list[Item]:
        return [*self._new_events(), *self._moved()]

    def _new_events(self) -> list[Item]:
        found = self._board.events_after(max(self._newest - LOOK_BACK, 0))
        new = [event for event in found if event.number not in self._seen and self._is_later(event)]
        for event in found:
            self._seen[event.number] = None
        while len(self._seen) > 4 * LOOK_BACK + len(found):
            self._seen.popitem(last=False)
        self._newest = max([self._newest, *(event.number for event in found)])
        return [_event(event) for event in new]

    def _is_later(self, event: JobEvent) -> bool:
        """What was there before anybody listened is no news."""
        return bool(self._seen) or event.number > self._newest

    def _moved(self) -> list[Item]:
        running = {job.job_id: job for job in self._board.running()}
        moved = [job for job in running.values() if self._progress.get(job.job_id, JobProgress()) != job.progress]
        self._progress = {job_id: job.progress for job_id, job in running.items()}
        return [
            Item(
                "progress",
                job.table,
                {"job_id": str(job.job_id), "table_name": str(job.table), "progress": to_json(job.progress)},
            )
            for job in moved
        ]


def _event(event: JobEvent) -> Item:
    return Item("job", event.table, {**to_json(event), "table_name": str(event.table)}, event.number)
