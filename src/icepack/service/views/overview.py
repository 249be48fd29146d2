"""Figures of the whole fleet, as far as somebody may see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from icepack.domain.access import Scopes, covered, namespace_text
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode, Severity
from icepack.domain.job import JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.access import Board, CostLine, CostSum, RunningJob, WorkerCounts
from icepack.domain.ports.queue import CacheState, TableSummary
from icepack.domain.table import TableId
from icepack.domain.verification import NativeDisabled, VerificationStore
from icepack.service.ttl_cache import Remembered
from icepack.service.views.table_index import Directory, Listing

COUNTS_SECONDS = 2.0
RUNNING_SECONDS = 1.0
COSTS_SECONDS = 30.0
SICKEST = 10
MOST_NAMESPACES = 500
TREND_DAYS = 30
BAND_STARTS = tuple(range(0, 100, 10))
_EFFECTS = (
    *("estimated_files_removed", "files_removed", "estimated_bytes_rewritten", "bytes_rewritten"),
    *("bytes_removed", "files_deleted", "bytes_deleted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBand:
    """Tables whose score is from the one to the other, both included."""

    min_score: int
    max_score: int
    tables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFigures:
    catalog: str
    namespace: str
    tables: int
    average_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """All cached tables together."""

    count: int = 0
    average_score: float | None = None
    by_score: tuple[ScoreBand, ...] = ()
    """The sickest band first."""
    by_severity: Mapping[str, int] = field(default_factory=dict)
    """Tables by their worst issue; `healthy` has none."""
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    records: int = 0
    snapshots: int = 0
    manifests: int = 0
    issues: Mapping[IssueCode, int] = field(default_factory=dict)
    """Tables that have the issue."""
    namespaces: tuple[NamespaceFigures, ...] = ()
    """By name; of very many, those with most tables."""
    recommended: Mapping[ActionKind, int] = field(default_factory=dict)
    """Tables for which the action is recommended."""
    estimated_dollars: float = 0.0
    """An estimate: what all that is recommended should cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFigures:
    """Estimated beside realised; the seconds are measured, the requests are those of the estimate."""

    runs: int
    estimated_dollars: float
    realised_dollars: float
    estimated_seconds: float
    realised_seconds: float
    estimated_files_removed: int = 0
    files_removed: int = 0
    """Fewer files that readers have to open."""
    estimated_bytes_rewritten: int = 0
    bytes_rewritten: int = 0
    bytes_removed: int = 0
    """By which rewritten files are smaller than those they replaced."""
    files_deleted: int = 0
    """From the storage, by expiry and the removal of orphans."""
    bytes_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    tables: TableFigures
    trend: tuple[TrendPoint, ...]
    """The last thirty days, the oldest first; days on which nobody looked are left out."""
    maintenance: CostFigures
    """Runs of the last thirty days: what they saved and cost, estimated beside realised."""
    sickest: tuple[TableSummary, ...]
    jobs: Mapping[JobState, int]
    jobs_last_day: Mapping[JobState, int]
    """Those that have ended within 24 hours, by how they did."""
    workers: WorkerCounts
    cache: CacheState
    native_disabled: int
    """Tables for which the native rewrite is switched off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    since: datetime
    until: datetime
    total: CostFigures
    by_day: Mapping[str, CostFigures]
    by_action: Mapping[str, CostFigures]
    by_table: Mapping[str, CostFigures]
    """Those that took longest."""


class Figures:
    def __init__(
        self,
        directory: Directory,
        board: Board,
        verification: VerificationStore,
        model: CostModel,
        clock: Callable[[], datetime],
    ) -> None:
        self._directory = directory
        self._board = board
        self._verification = verification
        self._model = model
        self._clock = clock
        self._counts: Remembered[Mapping[JobState, int]] = Remembered(COUNTS_SECONDS)
        self._ended: Remembered[Mapping[JobState, int]] = Remembered(COUNTS_SECONDS)
        self._trends: Remembered[tuple[TrendPoint, ...]] = Remembered(COSTS_SECONDS)
        self._running: Remembered[Mapping[TableId, RunningJob]] = Remembered(RUNNING_SECONDS)
        self._workers: Remembered[WorkerCounts] = Remembered(COUNTS_SECONDS)
        self._native_disabled: Remembered[Mapping[TableId, NativeDisabled]] = Remembered(COUNTS_SECONDS)
        self._costs: Remembered[CostReport] = Remembered(COSTS_SECONDS)
        self._tables: dict[tuple[int | None, Scopes], TableFigures] = {}

    def overview(self, scopes: Scopes) -> Overview:
        listing = self._directory.listing().within(scopes)
        return Overview(
            tables=self._of_tables(listing, scopes),
            sickest=listing.by_score[:SICKEST],
            jobs=self._counts.get(scopes, lambda: self._board.job_counts(scopes)),
            jobs_last_day=self._ended.get(scopes, lambda: self._board.ended_counts(self._ago(1), scopes)),
            workers=self._workers.get(None, self._board.workers),
            trend=self._trends.get(scopes, lambda: self._trend(scopes)),
            maintenance=self.cost(scopes, TREND_DAYS).total,
            cache=self._directory.state(),
            native_disabled=sum(covered(scopes, table) for table in self.native_disabled()),
        )

    def _ago(self, days: int) -> datetime:
        return self._clock() - timedelta(days=days)

    def _trend(self, scopes: Scopes) -> tuple[TrendPoint, ...]:
        return tuple(self._board.trend(self._ago(TREND_DAYS - 1).date(), scopes))

    def running(self) -> Mapping[TableId, RunningJob]:
        """What is worked on just now."""
        return self._running.get(None, lambda: {job.table: job for job in self._board.running()})

    def native_disabled(self) -> Mapping[TableId, NativeDisabled]:
        """Tables for which the native rewrite is switched off."""
        return self._native_disabled.get(
            None, lambda: {entry.table: entry for entry in self._verification.all_native_disabled()}
        )

    def cost(self, scopes: Scopes, days: int) -> CostReport:
        return self._costs.get((scopes, days), lambda: self._add_up(scopes, days))

    def _of_tables(self, listing: Listing, scopes: Scopes) -> TableFigures:
        """Worked out once per generation."""
        key = (listing.generation, scopes)
        if key not in self._tables:
            if any(generation != listing.generation for generation, _ in self._tables):
                self._tables = {}
            self._tables[key] = table_figures(listing.tables)
        return self._tables[key]

    def _add_up(self, scopes: Scopes, days: int) -> CostReport:
        until = self._clock()
        since = until - timedelta(days=days)
        lines = self._board.costs_by_day(since, scopes)
        tables = self._board.costs_by_table(since, scopes)
        return CostReport(
            since=since,
            until=until,
            total=self._priced(line.sums for line in lines),
            by_day=self._grouped(lines, lambda line: line.key[0]),
            by_action=self._grouped(lines, lambda line: line.key[1]),
            by_table=self._grouped(tables, lambda line: line.key[0]),
        )

    def _grouped(self, lines: Iterable[CostLine], key: Callable[[CostLine], str]) -> dict[str, CostFigures]:
        groups: dict[str, list[CostSum]] = {}
        for line in lines:
            groups.setdefault(key(line), []).append(line.sums)
        return {name: self._priced(sums) for name, sums in groups.items()}

    def _priced(self, sums: Iterable[CostSum]) -> CostFigures:
        found = list(sums)
        model = self._model
        seconds = sum(item.realised_seconds for item in found)
        requests = (
            sum(item.get_requests for item in found) * model.get_dollars_per_1000
            + sum(item.put_requests for item in found) * model.put_dollars_per_1000
        ) / 1000
        compute = seconds * model.parallelism * model.memory_gb * model.compute_dollars_per_gb_second
        return CostFigures(
            runs=sum(item.runs for item in found),
            estimated_dollars=sum(item.estimated_dollars for item in found),
            realised_dollars=requests + compute,
            estimated_seconds=sum(item.estimated_seconds for item in found),
            realised_seconds=seconds,
            **{name: sum(getattr(item, name) for item in found) for name in _EFFECTS},
        )


def _bands(scores: Iterable[int]) -> tuple[ScoreBand, ...]:
    """The last is one wider: 100 has no band of its own."""
    counts = Counter(min(score // 10 * 10, BAND_STARTS[-1]) for score in scores)
    ends = (*(start - 1 for start in BAND_STARTS[1:]), 100)
    return tuple(
        ScoreBand(min_score=start, max_score=end, tables=counts[start])
        for start, end in zip(BAND_STARTS, ends, strict=True)
    )


def _namespaces(tables: Iterable[TableSummary]) -> tuple[NamespaceFigures, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for item in tables:
        groups.setdefault((item.table.catalog, namespace_text(item.table)), []).append(item.score)
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))[:MOST_NAMESPACES]
    return tuple(
        NamespaceFigures(
            catalog=catalog, namespace=name, tables=len(scores), average_score=round(sum(scores) / len(scores), 1)
        )
        for (catalog, name), scores in sorted(largest)
    )


def table_figures(tables: Iterable[TableSummary]) -> TableFigures:
    found = list(tables)
    severities = Counter(item.brief.severity.value if item.brief.severity else "healthy" for item in found)
    totals = [item.totals for item in found]
    return TableFigures(
        count=len(found),
        average_score=round(sum(item.score for item in found) / len(found), 1) if found else None,
        by_score=_bands(item.score for item in found),
        by_severity={name: severities[name] for name in ("healthy", *Severity)},
        data_files=sum(total.data_files for total in totals),
        delete_files=sum(total.delete_files for total in totals),
        bytes=sum(total.bytes for total in totals),
        records=sum(total.records for total in totals),
        snapshots=sum(total.snapshots for total in totals),
        manifests=sum(total.manifests for total in totals),
        issues=dict(Counter(code for item in found for code in item.brief.issues)),
        namespaces=_namespaces(found),
        recommended=dict(Counter(kind for item in found for kind in item.brief.actions)),
        estimated_dollars=sum(item.brief.estimated_dollars for item in found),
    )
