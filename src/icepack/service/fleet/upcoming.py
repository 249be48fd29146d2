"""Forecasts the scheduled runs of any number of tables; tables with the same schedule are computed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate, chain, islice

from icepack.domain.scheduling.schedule import (
    CronSchedule,
    Occurrence,
    ScheduleEntry,
    Timetable,
    apply_windows,
    find_occurrences,
)
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingRun:
    """A run that will become due."""

    table: TableId
    entry: ScheduleEntry
    occurrence: Occurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The first runs in order, and how many there are in all."""

    runs: tuple[UpcomingRun, ...] = ()
    total: int = 0
    # How many runs may start in each hour that has any, not counting jitter, which spreads them.
    by_hour: Mapping[datetime, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastQuery:
    """The time range of a forecast, and the schedules and windows that it uses."""

    timetable: Timetable
    cron_schedule: Callable[[TableId], CronSchedule]
    # Returns the windows that a table's own properties set.
    own_windows: Callable[[TableId], tuple[Window, ...]]
    after: datetime
    until: datetime

    def find_due(self, table: TableId, jitter: timedelta, until: datetime) -> list[Occurrence]:
        found = find_occurrences(self.cron_schedule(table), table, jitter, self.after, until)
        in_windows = apply_windows(found, self.own_windows(table), self.timetable.zone)
        return [occurrence for occurrence in in_windows if occurrence.due_at <= until]


@dataclass(frozen=True, slots=True)
class _TableGroup:
    """Tables that are due at the same times, not counting jitter."""

    tables: Sequence[TableId]
    due: Sequence[Occurrence]


def forecast_runs(query: ForecastQuery, tables: Sequence[TableId], limit: int | None = None) -> Forecast:
    """Counts all runs and lists the first `limit` of them."""
    groups = list(_group_tables(query, tables))
    by_hour: Counter[datetime] = Counter()
    for group in groups:
        for due in group.due:
            by_hour[due.due_at.replace(minute=0, second=0, microsecond=0)] += len(group.tables)
    total = by_hour.total()
    pairs = _list_first(query, groups, total if limit is None else min(limit, total))
    entry_for = query.timetable.entry_for
    runs = tuple(UpcomingRun(table=table, entry=entry_for(table), occurrence=due) for due, table in pairs)
    return Forecast(runs=runs, total=total, by_hour=by_hour)


def _group_tables(query: ForecastQuery, tables: Sequence[TableId]) -> Iterator[_TableGroup]:
    groups: dict[object, list[TableId]] = {}
    for table in tables:
        groups.setdefault((query.cron_schedule(table), query.own_windows(table)), []).append(table)
    for members in groups.values():
        yield _TableGroup(sorted(members), query.find_due(members[0], timedelta(0), query.until))


def _list_first(query: ForecastQuery, groups: Sequence[_TableGroup], count: int) -> list[tuple[Occurrence, TableId]]:
    jitter = query.timetable.jitter
    if not jitter:
        shared = (islice(((due, table) for due in group.due for table in group.tables), count) for group in groups)
        return sorted(chain.from_iterable(shared))[:count]
    # By this time at least `count` runs are due even with jitter, so no later run is among the first `count`.
    until = min(_find_time_of(groups, count) + jitter, query.until) if count else query.after
    each = ((due, table) for group in groups for table in group.tables for due in query.find_due(table, jitter, until))
    return sorted(each)[:count]


def _find_time_of(groups: Sequence[_TableGroup], count: int) -> datetime:
    """Returns the time by which `count` runs are due, not counting jitter."""
    times = sorted((due.due_at, len(group.tables)) for group in groups for due in group.due)
    totals = accumulate(number for _, number in times)
    return next(at for (at, _), total in zip(times, totals, strict=True) if total >= count)
