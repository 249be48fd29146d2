"""Broadcasts job events to the subscribers of the event stream.

One task polls the store once a second, however many subscribers there are.
"""

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

from icepack.domain.access import Scopes, is_in_scope
from icepack.domain.job import JobEvent, JobProgress
from icepack.domain.ports.queries import FleetQueries
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
KEEPALIVE_SECONDS = 15.0
# Event numbers are assigned before commit, so an event may become visible after one with a higher number.
# Each poll therefore reads this many events again.
LOOKBACK_EVENTS = 100
# A subscriber whose queue is full is disconnected.
MAX_QUEUED = 1000
MAX_REPLAYED = 1000


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of the stream; only job events have a number to resume from, progress has none."""

    kind: str
    table: TableId
    document: dict[str, Any]
    number: int | None = None


Subscription = asyncio.Queue[StreamEvent | None]


class JobEventBroadcaster:
    def __init__(
        self,
        fleet_queries: FleetQueries,
        *,
        poll_seconds: float = POLL_SECONDS,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
    ) -> None:
        self._fleet_queries = fleet_queries
        self._poll_seconds = poll_seconds
        self._keepalive_seconds = keepalive_seconds
        self._subscriptions: set[Subscription] = set()
        self._poller: asyncio.Task[None] | None = None
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._newest = 0
        self._progress: dict[UUID, JobProgress] = {}
        self._is_closed = False

    async def subscribe(
        self, scopes: Scopes, after: int | None, is_authorized: Callable[[], bool]
    ) -> AsyncGenerator[StreamEvent | None, None]:
        """Yields every change from now on, or after the event with the given number.

        Yields None first, once the subscription is registered and no later event can be missed, and then whenever
        nothing happened for the keep-alive interval.
        """
        subscription: Subscription = asyncio.Queue(MAX_QUEUED)
        await self._register(subscription)
        last_number = after or 0
        try:
            yield None
            for event in await self._read_after(after):
                last_number = max(last_number, event.number or 0)
                if is_in_scope(scopes, event.table):
                    yield event
            while not self._is_closed:
                try:
                    received = await asyncio.wait_for(subscription.get(), self._keepalive_seconds)
                except TimeoutError:
                    if not await run_in_threadpool(is_authorized):
                        return
                    yield None
                    continue
                if received is None:
                    return
                is_replayed = after is not None and received.number and received.number <= last_number
                if is_in_scope(scopes, received.table) and not is_replayed:
                    yield received
        finally:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Ends every stream; must be called from the event loop's thread."""
        self._is_closed = True
        for subscription in self._subscriptions:
            with suppress(asyncio.QueueFull):
                subscription.put_nowait(None)
        if self._poller is not None:
            self._poller.cancel()

    async def _register(self, subscription: Subscription) -> None:
        if not self._subscriptions:
            self._newest = await run_in_threadpool(self._fleet_queries.newest_event)
            self._seen.clear()
            self._progress.clear()
        self._subscriptions.add(subscription)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll_repeatedly())

    async def _read_after(self, after: int | None) -> list[StreamEvent]:
        if after is None:
            return []
        events = await run_in_threadpool(self._fleet_queries.events_after, after, limit=MAX_REPLAYED)
        return [_to_stream_event(event) for event in events]

    async def _poll_repeatedly(self) -> None:
        while self._subscriptions and not self._is_closed:
            try:
                for event in await run_in_threadpool(self._poll):
                    self._broadcast(event)
            except EnvironmentFault as exc:
                log.warning("cannot read job events: %s", exc)
            await asyncio.sleep(self._poll_seconds)

    def _broadcast(self, event: StreamEvent) -> None:
        for subscription in list(self._subscriptions):
            try:
                subscription.put_nowait(event)
            except asyncio.QueueFull:
                self._subscriptions.discard(subscription)
                subscription.get_nowait()
                subscription.put_nowait(None)

    def _poll(self) -> list[StreamEvent]:
        return [*self._read_new_events(), *self._read_progress()]

    def _read_new_events(self) -> list[StreamEvent]:
        found = self._fleet_queries.events_after(max(self._newest - LOOKBACK_EVENTS, 0))
        new = [event for event in found if event.number not in self._seen and self._is_recent(event)]
        for event in found:
            self._seen[event.number] = None
        while len(self._seen) > 4 * LOOKBACK_EVENTS + len(found):
            self._seen.popitem(last=False)
        self._newest = max([self._newest, *(event.number for event in found)])
        return [_to_stream_event(event) for event in new]

    def _is_recent(self, event: JobEvent) -> bool:
        """Excludes, at the first poll, events that are older than the first subscription."""
        return bool(self._seen) or event.number > self._newest

    def _read_progress(self) -> list[StreamEvent]:
        running = {job.job_id: job for job in self._fleet_queries.running()}
        changed = [job for job in running.values() if self._progress.get(job.job_id, JobProgress()) != job.progress]
        self._progress = {job_id: job.progress for job_id, job in running.items()}
        return [
            StreamEvent(
                "progress",
                job.table,
                {"job_id": str(job.job_id), "table_name": str(job.table), "progress": to_json(job.progress)},
            )
            for job in changed
        ]


def _to_stream_event(event: JobEvent) -> StreamEvent:
    return StreamEvent("job", event.table, {**to_json(event), "table_name": str(event.table)}, event.number)
