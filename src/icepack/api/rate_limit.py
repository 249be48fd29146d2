"""Rate limiting with one token bucket for each caller."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from icepack.api.errors import TooManyRequests

# A bucket holds the requests of this many seconds unless a burst is given.
BURST_SECONDS = 2.0
MAX_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    refilled_at: float


class RateLimiter:
    """Not thread-safe: only the event loop's thread uses it."""

    def __init__(
        self,
        per_second: float,
        *,
        burst: float | None = None,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst if burst is not None else max(per_second * BURST_SECONDS, 1.0)
        self._elapsed_seconds = elapsed_seconds
        self._buckets: dict[str, _Bucket] = {}

    def acquire(self, caller: str) -> None:
        """Takes one token from the caller's bucket; raises TooManyRequests if it is empty."""
        if not self._per_second:
            return
        bucket = self._refill(caller)
        if bucket.tokens < 1:
            raise TooManyRequests((1 - bucket.tokens) / self._per_second)
        bucket.tokens -= 1

    def check(self, caller: str) -> None:
        """Raises TooManyRequests if the caller's bucket is empty, without taking a token."""
        if self._per_second and caller in self._buckets and self._refill(caller).tokens < 1:
            raise TooManyRequests((1 - self._buckets[caller].tokens) / self._per_second)

    def _refill(self, caller: str) -> _Bucket:
        now = self._elapsed_seconds()
        bucket = self._buckets.get(caller)
        if bucket is None:
            self._drop_full_buckets(now)
            bucket = self._buckets[caller] = _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.refilled_at) * self._per_second)
        bucket.refilled_at = now
        return bucket

    def _drop_full_buckets(self, now: float) -> None:
        """Limits memory: a full bucket is the same as none."""
        if len(self._buckets) >= MAX_BUCKETS:
            fill_seconds = self._burst / self._per_second
            self._buckets = {
                name: bucket for name, bucket in self._buckets.items() if now - bucket.refilled_at < fill_seconds
            }
