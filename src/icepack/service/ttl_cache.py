"""A cache whose values expire after a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
# When a cache is full it is cleared completely, so it never grows without limit.
MAX_ENTRIES = 256


@dataclass
class _Entry(Generic[T]):
    busy: Lock = field(default_factory=Lock)
    computed_at: float | None = None
    value: T | None = None


class TtlCache(Generic[T]):
    """Keeps each value for a time to live and lets one thread at a time compute a new one.

    While a value is being recomputed, other threads get the old value if there is one.
    """

    def __init__(self, ttl_seconds: float, elapsed_seconds: Callable[[], float] = time.monotonic) -> None:
        self._ttl_seconds = ttl_seconds
        self._elapsed_seconds = elapsed_seconds
        self._entries: dict[Hashable, _Entry[T]] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        entry = self._entry(key)
        if entry.value is not None and (self._is_fresh(entry) or entry.busy.locked()):
            return entry.value
        with entry.busy:
            if entry.value is None or not self._is_fresh(entry):
                entry.value, entry.computed_at = compute(), self._elapsed_seconds()
            return entry.value

    def _entry(self, key: Hashable) -> _Entry[T]:
        if len(self._entries) >= MAX_ENTRIES and key not in self._entries:
            self._entries.clear()
        return self._entries.setdefault(key, _Entry())

    def _is_fresh(self, entry: _Entry[T]) -> bool:
        return entry.computed_at is not None and self._elapsed_seconds() - entry.computed_at < self._ttl_seconds
