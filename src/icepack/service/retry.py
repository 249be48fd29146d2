"""Retries with exponential backoff."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from threading import Event
from typing import TypeVar

from icepack.errors import EnvironmentFault

log = logging.getLogger(__name__)

T = TypeVar("T")
# While the database is unavailable, every twentieth failure in a row is logged.
LOG_EVERY_FAILURES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that double with every failure, up to a maximum.

    Each delay is shortened at random by up to `jitter`, so that many clients do not all retry at the same moment.
    """

    initial_seconds: float = 0.2
    max_seconds: float = 5.0
    jitter: float = 0.5

    def delay_seconds(self, failures: int) -> float:
        doubled: float = self.initial_seconds * 2 ** min(failures - 1, 30)
        return random.uniform(1 - self.jitter, 1.0) * min(doubled, self.max_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after what delay, a run is repeated that lost a commit to another writer."""

    max_attempts: int = 5
    base_delay: timedelta = timedelta(milliseconds=200)

    def delay_seconds(self, attempt: int) -> float:
        backoff = Backoff(initial_seconds=self.base_delay.total_seconds(), max_seconds=inf, jitter=0.0)
        return backoff.delay_seconds(attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRetry:
    """Repeats database calls with backoff until they succeed."""

    backoff: Backoff = field(default_factory=Backoff)
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)

    def run(self, operation: str, call: Callable[[], T], *, stop: Event | None = None) -> T:
        """Returns the result of the call, no matter how long the database is unavailable.

        Raises the last failure once `stop` is set.
        """
        failures = 0
        while True:
            try:
                result = call()
            except EnvironmentFault as exc:
                failures += 1
                if stop is not None and stop.is_set():
                    raise
                if failures % LOG_EVERY_FAILURES == 1:
                    log.warning("%s failed, retrying: %s", operation, exc)
                wait = stop.wait if stop is not None else self.wait
                wait(self.backoff.delay_seconds(failures))
            else:
                if failures:
                    log.warning("%s succeeded after %d failures", operation, failures)
                return result
