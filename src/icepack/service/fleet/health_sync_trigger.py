"""Health sync in step with the work: at its interval, and soon after jobs have ended, so that their effect is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Event
from typing import Protocol

from icepack.domain.job import JobState
from icepack.domain.ports.queue import CacheState

LOOK_EVERY = timedelta(seconds=1)
REST = 10
"""A round that took long is followed by a rest of so many times as long, whatever has ended meanwhile."""


class Sync(Protocol):
    def run_once(self, *, full: bool = False, stop: Event | None = None) -> object: ...


class EndedJobs(Protocol):
    def ended_counts(self, since: datetime) -> Mapping[JobState, int]: ...


class PromptSync:
    def __init__(
        self,
        sync: Sync,
        ended: EndedJobs,
        state: Callable[[], CacheState],
        *,
        interval: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        self._sync = sync
        self._ended = ended
        self._state = state
        self._interval = interval
        self._clock = clock
        self._began: datetime | None = None
        self._took = timedelta()

    def look(self, stop: Event) -> None:
        """Takes the round if it is due; the first one always is."""
        if not self._is_due():
            return
        began = self._clock()
        self._sync.run_once(stop=stop)
        self._began, self._took = began, self._clock() - began

    def _is_due(self) -> bool:
        now, refreshed_at = self._clock(), self._state().refreshed_at
        if self._began is None or refreshed_at is None or now - refreshed_at >= self._interval:
            return True
        if now - refreshed_at < self._took * REST:
            return False
        return any(self._ended.ended_counts(self._began).values())
