"""What comes due within a span, of however many tables: those that share a rhythm are worked out together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate, chain, islice

from icepack.domain.scheduling.schedule import Occurrence, Rhythm, ScheduleEntry, Timetable, narrowed, occurrences
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """Something that will run."""

    table: TableId
    entry: ScheduleEntry
    occurrence: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    runs: tuple[Upcoming, ...] = ()
    """The first ones, in order."""
    total: int = 0
    by_hour: Mapping[datetime, int] = field(default_factory=dict)
    """How many may begin in each hour that has any; jitter, which spreads them, is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """By which timetable, rhythms and windows, and between which moments."""

    timetable: Timetable
    rhythm: Callable[[TableId], Rhythm]
    own_windows: Callable[[TableId], tuple[Window, ...]]
    """Those that a table has itself."""
    after: datetime
    until: datetime

    def due(self, table: TableId, jitter: timedelta, until: datetime) -> list[Occurrence]:
        found = occurrences(self.rhythm(table), table, jitter, self.after, until)
        return [item for item in narrowed(found, self.own_windows(table), self.timetable.zone) if item.due_at <= until]


@dataclass(frozen=True, slots=True)
class _Choir:
    """Tables that come due together, were it not for jitter."""

    tables: Sequence[TableId]
    due: Sequence[Occurrence]


def forecast(outlook: Outlook, tables: Sequence[TableId], limit: int | None = None) -> Forecast:
    """All of it counted, and the first so many one by one."""
    choirs = list(_choirs(outlook, tables))
    by_hour: Counter[datetime] = Counter()
    for choir in choirs:
        for due in choir.due:
            by_hour[due.due_at.replace(minute=0, second=0, microsecond=0)] += len(choir.tables)
    total = by_hour.total()
    pairs = _first(outlook, choirs, total if limit is None else min(limit, total))
    entry = outlook.timetable.entry_for
    runs = tuple(Upcoming(table=table, entry=entry(table), occurrence=due) for due, table in pairs)
    return Forecast(runs=runs, total=total, by_hour=by_hour)


def _choirs(outlook: Outlook, tables: Sequence[TableId]) -> Iterator[_Choir]:
    groups: dict[object, list[TableId]] = {}
    for table in tables:
        groups.setdefault((outlook.rhythm(table), outlook.own_windows(table)), []).append(table)
    for members in groups.values():
        yield _Choir(sorted(members), outlook.due(members[0], timedelta(0), outlook.until))


def _first(outlook: Outlook, choirs: Sequence[_Choir], count: int) -> list[tuple[Occurrence, TableId]]:
    jitter = outlook.timetable.jitter
    if not jitter:
        shared = (islice(((due, table) for due in it.due for table in it.tables), count) for it in choirs)
        return sorted(chain.from_iterable(shared))[:count]
    # So many have come due by then at the latest, so none that comes later is among them.
    until = min(_enough(choirs, count) + jitter, outlook.until) if count else outlook.after
    each = ((due, table) for it in choirs for table in it.tables for due in outlook.due(table, jitter, until))
    return sorted(each)[:count]


def _enough(choirs: Sequence[_Choir], count: int) -> datetime:
    """When so many have come due."""
    moments = sorted((due.due_at, len(choir.tables)) for choir in choirs for due in choir.due)
    passed = accumulate(number for _, number in moments)
    return next(at for (at, _), so_many in zip(moments, passed, strict=True) if so_many >= count)
