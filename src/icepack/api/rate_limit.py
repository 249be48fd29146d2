"""How many requests a caller may make: a bucket each, refilled steadily."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from icepack.api.refusals import TooManyRequests

BURST_SECONDS = 2.0
MOST_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    filled_at: float


class Limits:
    """Only ever used by the event loop's thread."""

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

    def take(self, caller: str) -> None:
        """Raises TooManyRequests when the caller's bucket is empty."""
        if not self._per_second:
            return
        bucket = self._filled(caller)
        if bucket.left < 1:
            raise TooManyRequests((1 - bucket.left) / self._per_second)
        bucket.left -= 1

    def check(self, caller: str) -> None:
        """The same, without taking one."""
        if self._per_second and caller in self._buckets and self._filled(caller).left < 1:
            raise TooManyRequests((1 - self._buckets[caller].left) / self._per_second)

    def _filled(self, caller: str) -> _Bucket:
        now = self._elapsed_seconds()
        bucket = self._buckets.get(caller)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[caller] = _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        return bucket

    def _make_room(self, now: float) -> None:
        """Full buckets say nothing, and go."""
        if len(self._buckets) >= MOST_BUCKETS:
            full = self._burst / self._per_second
            self._buckets = {name: kept for name, kept in self._buckets.items() if now - kept.filled_at < full}
