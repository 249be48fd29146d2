"""Renews a job's claim or a table's lock in the background while its holder works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType

from icepack.domain.job import ClaimLost
from icepack.domain.ports.locks import LockLost
from icepack.errors import Cancelled, IcepackError
from icepack.tracing import bind_context

log = logging.getLogger(__name__)

BEATS_PER_LEASE = 3
# The longest time between heartbeats, no matter how long the lease is: a heartbeat also reports requests to cancel.
MAX_INTERVAL_SECONDS = 3.0
TICK_SECONDS = 1.0
# How long to wait at the end for a heartbeat that is still running.
JOIN_SECONDS = 1.0

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """Reads a clock that is never adjusted and that keeps running while the machine sleeps, as leases do."""
    return time.clock_gettime(_CLOCK)


def do_nothing() -> None:
    """For holders that have nothing else to do with each tick."""


class Heartbeat(AbstractContextManager["Heartbeat"]):
    """Renews the claim or lock in the background.

    Sets `cancel` if it is lost, if it may have expired, or if cancellation is requested.
    """

    def __init__(
        self,
        renew: Callable[[], bool],
        lease: timedelta,
        cancel: Event,
        *,
        since: float,
        on_tick: Callable[[], None] = do_nothing,
        clock: Callable[[], float] = elapsed_seconds,
    ) -> None:
        self.cancel = cancel
        # Set if the database has said that the claim or lock is lost.
        self.lost: IcepackError | None = None
        # True if, by our own clock, no renewal succeeded for a whole lease, so another holder may have taken over.
        self.expired = False
        self.asked_to_cancel = False
        self._renew = renew
        self._on_tick = on_tick
        self._clock = clock
        self._lease_seconds = lease.total_seconds()
        self._interval = min(self._lease_seconds / BEATS_PER_LEASE, MAX_INTERVAL_SECONDS)
        self._ends_at = since + self._lease_seconds
        self._failed_renewals = 0
        self._closed = Event()
        self._threads: list[Thread] = []

    def __enter__(self) -> Heartbeat:
        self._threads = [
            Thread(target=bind_context(self._renew_until_closed), name="icepack-heartbeat", daemon=True),
            # A separate thread, because the other one may hang in a call to a database that does not answer.
            Thread(target=bind_context(self._watch_lease), name="icepack-lease", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    def confirm(self) -> None:
        """Renews immediately; raises Cancelled if the claim or lock is lost.

        A renewal that gets no answer is no loss while the lease lasts.
        """
        self._renew_now()
        if self.lost is not None:
            raise Cancelled(str(self.lost)) from self.lost
        if self._is_lease_over():
            self._expire()
            raise Cancelled("The lease expired before it could be renewed.")

    def lose(self, reason: IcepackError) -> None:
        self.lost = reason
        self._stop_work(str(reason))

    def _renew_until_closed(self) -> None:
        due = self._clock() + self._interval
        while not self._closed.wait(min(TICK_SECONDS, self._interval)):
            self._on_tick()
            if self._clock() >= due and self.lost is None:
                is_answered = self._renew_now()
                due = self._clock() + (self._interval if is_answered else self._interval / BEATS_PER_LEASE)

    def _renew_now(self) -> bool:
        asked_at = self._clock()
        try:
            asked_to_cancel = self._renew()
        except (ClaimLost, LockLost) as exc:
            self.lose(exc)
            return True
        except Exception as exc:
            self._failed_renewals += 1
            if self._failed_renewals == 1:
                log.warning("heartbeat failed: %s", exc)
            return False
        self._failed_renewals = 0
        self._ends_at = max(self._ends_at, asked_at + self._lease_seconds)
        if asked_to_cancel and not self.asked_to_cancel:
            self.asked_to_cancel = True
            self._stop_work("cancellation was requested")
        return True

    def _watch_lease(self) -> None:
        while not self._closed.wait(min(max(self._ends_at - self._clock(), 0.0), TICK_SECONDS)):
            if self._is_lease_over():
                self._expire()
                return

    def _is_lease_over(self) -> bool:
        return self._clock() >= self._ends_at

    def _expire(self) -> None:
        self.expired = True
        self._stop_work("no heartbeat succeeded for a whole lease")

    def _stop_work(self, reason: str) -> None:
        if not (self._closed.is_set() or self.cancel.is_set()):
            log.warning("stopping work: %s", reason)
        self.cancel.set()
