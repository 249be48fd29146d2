"""Figures that take a while to add up: remembered for a short time, added up by one thread at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_REMEMBERED = 256


@dataclass
class _Entry(Generic[T]):
    busy: Lock = field(default_factory=Lock)
    made_at: float | None = None
    value: T | None = None


class Remembered(Generic[T]):
    """Whoever asks while the figure is added up anew gets the old one, if there is one."""

    def __init__(self, seconds: float, elapsed_seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._elapsed_seconds = elapsed_seconds
        self._entries: dict[Hashable, _Entry[T]] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        entry = self._entry(key)
        if entry.value is not None and self._is_fresh(entry):
            return entry.value
        if entry.value is not None and entry.busy.locked():
            return entry.value
        with entry.busy:
            if entry.value is None or not self._is_fresh(entry):
                entry.value, entry.made_at = make(), self._elapsed_seconds()
            return entry.value

    def _entry(self, key: Hashable) -> _Entry[T]:
        if len(self._entries) >= MOST_REMEMBERED and key not in self._entries:
            self._entries.clear()
        return self._entries.setdefault(key, _Entry())

    def _is_fresh(self, entry: _Entry[T]) -> bool:
        return entry.made_at is not None and self._elapsed_seconds() - entry.made_at < self._seconds
