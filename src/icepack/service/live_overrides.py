"""Picks up policies and schedules that were changed through the API, without a restart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from threading import Lock
from typing import Generic, TypeVar, overload

from icepack.domain.policy import PolicyRule
from icepack.service.ttl_cache import TtlCache

T = TypeVar("T")
# How long a change of the policies may take to come into effect.
RELOAD_SECONDS = 5.0
POLICIES, SCHEDULES = "policies", "schedules"


class LivePolicyRules(Sequence[PolicyRule]):
    """The rules of the configuration followed by the overrides; of equally specific rules the last one wins."""

    def __init__(
        self,
        configured: Sequence[PolicyRule],
        read_overrides: Callable[[], Sequence[PolicyRule]],
        reload_seconds: float = RELOAD_SECONDS,
    ) -> None:
        self.configured = tuple(configured)
        self._read_overrides = read_overrides
        self._cache: TtlCache[tuple[PolicyRule, ...]] = TtlCache(reload_seconds)

    def current(self) -> tuple[PolicyRule, ...]:
        return self._cache.get(POLICIES, lambda: (*self.configured, *self._read_overrides()))

    def __len__(self) -> int:
        return len(self.current())

    def __iter__(self) -> Iterator[PolicyRule]:
        return iter(self.current())

    @overload
    def __getitem__(self, index: int) -> PolicyRule: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PolicyRule]: ...

    def __getitem__(self, index: int | slice) -> PolicyRule | Sequence[PolicyRule]:
        return self.current()[index]


class VersionedValue(Generic[T]):
    """A value that is rebuilt when the version of its inputs changes."""

    def __init__(self, version: Callable[[], Hashable], build: Callable[[], T]) -> None:
        self._version = version
        self._build = build
        self._lock = Lock()
        self._built: tuple[Hashable, T] | None = None

    def current(self) -> T:
        version = self._version()
        with self._lock:
            if self._built is None or self._built[0] != version:
                self._built = (version, self._build())
            return self._built[1]
