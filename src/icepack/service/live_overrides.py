"""What follows changes that are made through the API, without a restart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from threading import Lock
from typing import Generic, TypeVar, overload

from icepack.domain.policy import PolicyRule
from icepack.service.ttl_cache import Remembered

T = TypeVar("T")
LOOK_AGAIN_SECONDS = 5.0
POLICIES, SCHEDULES = "policies", "schedules"


class LiveRules(Sequence[PolicyRule]):
    """The configuration's rules, and after them those that were set since: among equals the later ones win."""

    def __init__(
        self,
        configured: Sequence[PolicyRule],
        added: Callable[[], Sequence[PolicyRule]],
        look_again_seconds: float = LOOK_AGAIN_SECONDS,
    ) -> None:
        self.configured = tuple(configured)
        self._added = added
        self._remembered: Remembered[tuple[PolicyRule, ...]] = Remembered(look_again_seconds)

    def current(self) -> tuple[PolicyRule, ...]:
        return self._remembered.get(POLICIES, lambda: (*self.configured, *self._added()))

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


class Rebuilt(Generic[T]):
    """Something that is built anew when what it was built from has another version."""

    def __init__(self, version: Callable[[], Hashable], build: Callable[[], T]) -> None:
        self._version = version
        self._build = build
        self._lock = Lock()
        self._made: tuple[Hashable, T] | None = None

    def current(self) -> T:
        version = self._version()
        with self._lock:
            if self._made is None or self._made[0] != version:
                self._made = (version, self._build())
            return self._made[1]
