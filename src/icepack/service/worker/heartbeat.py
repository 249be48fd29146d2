"""A right that must be renewed, a job's claim or a table's lock, kept alive while its holder works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType

from icepack.domain.job import ClaimLost
from icepack.domain.ports.queue import LockLost
from icepack.errors import Cancelled, IcepackError
from icepack.tracing import in_context

log = logging.getLogger(__name__)

BEATS_PER_LEASE = 3
LONGEST_SILENCE_SECONDS = 3.0
"""However long the lease: a heartbeat is also how the wish to cancel is heard."""
TICK_SECONDS = 1.0
LAST_WAIT_SECONDS = 1.0

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """A clock that nobody sets, and that runs on while the machine sleeps, as leases do."""
    return time.clock_gettime(_CLOCK)


def nothing_more() -> None:
    """For holders with nothing else to do each second."""


class Heartbeat(AbstractContextManager["Heartbeat"]):
    """Renews in the background; sets `cancel` when the right is lost, must be taken for lost, or is asked back."""

    def __init__(
        self,
        renew: Callable[[], bool],
        lease: timedelta,
        cancel: Event,
        *,
        since: float,
        each_second: Callable[[], None] = nothing_more,
        clock: Callable[[], float] = elapsed_seconds,
    ) -> None:
        self.cancel = cancel
        self.lost: IcepackError | None = None
        """The database's own word."""
        self.expired = False
        """By our own clock: nobody answered for a whole lease, so another may have been let in."""
        self.asked_to_cancel = False
        self._renew = renew
        self._each_second = each_second
        self._clock = clock
        self._lease_seconds = lease.total_seconds()
        self._interval = min(self._lease_seconds / BEATS_PER_LEASE, LONGEST_SILENCE_SECONDS)
        self._ends_at = since + self._lease_seconds
        self._unanswered = 0
        self._closed = Event()
        self._threads: list[Thread] = []

    def __enter__(self) -> Heartbeat:
        self._threads = [
            Thread(target=in_context(self._beat_on), name="icepack-heartbeat", daemon=True),
            # A thread of its own: the other may hang in a call to a database that does not answer.
            Thread(target=in_context(self._watch), name="icepack-lease", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join(LAST_WAIT_SECONDS)

    def confirm(self) -> None:
        """Ask right now; raises Cancelled when the right is gone. No answer is no loss while the lease lasts."""
        self._beat()
        if self.lost is not None:
            raise Cancelled(str(self.lost)) from self.lost
        if self._is_over():
            self._expire()
            raise Cancelled("The lease ended before it could be renewed.")

    def lose(self, reason: IcepackError) -> None:
        self.lost = reason
        self._stop_work(str(reason))

    def _beat_on(self) -> None:
        due = self._clock() + self._interval
        while not self._closed.wait(min(TICK_SECONDS, self._interval)):
            self._each_second()
            if self._clock() >= due and self.lost is None:
                answered = self._beat()
                due = self._clock() + (self._interval if answered else self._interval / BEATS_PER_LEASE)

    def _beat(self) -> bool:
        asked_at = self._clock()
        try:
            asked_to_cancel = self._renew()
        except (ClaimLost, LockLost) as exc:
            self.lose(exc)
            return True
        except Exception as exc:
            self._unanswered += 1
            if self._unanswered == 1:
                log.warning("a heartbeat was not answered: %s", exc)
            return False
        self._unanswered = 0
        self._ends_at = max(self._ends_at, asked_at + self._lease_seconds)
        if asked_to_cancel and not self.asked_to_cancel:
            self.asked_to_cancel = True
            self._stop_work("asked to cancel")
        return True

    def _watch(self) -> None:
        while not self._closed.wait(min(max(self._ends_at - self._clock(), 0.0), TICK_SECONDS)):
            if self._is_over():
                self._expire()
                return

    def _is_over(self) -> bool:
        return self._clock() >= self._ends_at

    def _expire(self) -> None:
        self.expired = True
        self._stop_work("no heartbeat was answered for a whole lease")

    def _stop_work(self, why: str) -> None:
        if not (self._closed.is_set() or self.cancel.is_set()):
            log.warning("stopping the work: %s", why)
        self.cancel.set()
