"""Runs health sync at its interval, and soon after jobs have ended, so that their effect becomes visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Event
from typing import Protocol

from icepack.domain.job import JobState
from icepack.domain.ports.table_cache import CacheState

CHECK_INTERVAL = timedelta(seconds=1)
# After a refresh there is a pause of this many times its duration, even if jobs have ended meanwhile.
PAUSE_FACTOR = 10


class CacheRefresh(Protocol):
    """Refreshes the table cache."""

    def run_once(self, *, full: bool = False, stop: Event | None = None) -> object: ...


class EndedJobCounts(Protocol):
    """Counts the jobs that have ended."""

    def ended_counts(self, since: datetime) -> Mapping[JobState, int]: ...


class HealthSyncTrigger:
    """Decides when to refresh the table cache."""

    def __init__(
        self,
        health_sync: CacheRefresh,
        ended_jobs: EndedJobCounts,
        cache_state: Callable[[], CacheState],
        *,
        interval: timedelta,
        clock: Callable[[], datetime],
    ) -> None:
        self._health_sync = health_sync
        self._ended_jobs = ended_jobs
        self._cache_state = cache_state
        self._interval = interval
        self._clock = clock
        self._started_at: datetime | None = None
        self._duration = timedelta()

    def run_if_due(self, stop: Event) -> None:
        """Refreshes the cache if that is due; the first call always does."""
        if not self._is_due():
            return
        started_at = self._clock()
        self._health_sync.run_once(stop=stop)
        self._started_at, self._duration = started_at, self._clock() - started_at

    def _is_due(self) -> bool:
        now, refreshed_at = self._clock(), self._cache_state().refreshed_at
        if self._started_at is None or refreshed_at is None or now - refreshed_at >= self._interval:
            return True
        if now - refreshed_at < self._duration * PAUSE_FACTOR:
            return False
        return any(self._ended_jobs.ended_counts(self._started_at).values())
