"""Statistics of the whole fleet, limited to the tables that the reader may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from icepack.domain.access import Scopes, format_namespace, is_in_scope
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode, Severity
from icepack.domain.job import JobState
from icepack.domain.observability.fleet_trend import TrendPoint
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.queries import CostLine, CostSum, FleetQueries, RunningJob, WorkerCounts
from icepack.domain.ports.table_cache import CacheState, TableSummary
from icepack.domain.table import TableId
from icepack.domain.verification import NativeDisabled, VerificationStore
from icepack.service.ttl_cache import TtlCache
from icepack.service.views.table_index import TableIndex, TableListing

# How long counts of jobs, workers and disabled tables are cached.
COUNTS_SECONDS = 2.0
# How long the list of running jobs is cached.
RUNNING_SECONDS = 1.0
# How long costs and trends are cached.
COSTS_SECONDS = 30.0
# How many of the tables with the lowest health score the overview lists.
MAX_UNHEALTHY = 10
MAX_NAMESPACES = 500
TREND_DAYS = 30
BAND_STARTS = tuple(range(0, 100, 10))
_EFFECTS = (
    *("estimated_files_removed", "files_removed", "estimated_bytes_rewritten", "bytes_rewritten"),
    *("bytes_removed", "files_deleted", "bytes_deleted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBand:
    """How many tables have a score in this range, both ends included."""

    min_score: int
    max_score: int
    tables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFigures:
    """The tables of one namespace."""

    catalog: str
    namespace: str
    tables: int
    average_score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """The totals of all cached tables."""

    count: int = 0
    average_score: float | None = None
    by_score: tuple[ScoreBand, ...] = ()
    """The lowest scores first."""
    by_severity: Mapping[str, int] = field(default_factory=dict)
    """Number of tables by the severity of their worst issue; `healthy` if they have none."""
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    records: int = 0
    snapshots: int = 0
    manifests: int = 0
    issues: Mapping[IssueCode, int] = field(default_factory=dict)
    """Number of tables with each issue."""
    namespaces: tuple[NamespaceFigures, ...] = ()
    """Sorted by name; if there are too many, those with the most tables."""
    recommended: Mapping[ActionKind, int] = field(default_factory=dict)
    """Number of tables for which each action is recommended."""
    estimated_dollars: float = 0.0
    """The estimated cost of all recommended actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFigures:
    """Estimated and realised cost. Seconds are measured; the number of requests is the estimated one."""

    runs: int
    estimated_dollars: float
    realised_dollars: float
    estimated_seconds: float
    realised_seconds: float
    estimated_files_removed: int = 0
    files_removed: int = 0
    """Data files removed from scans."""
    estimated_bytes_rewritten: int = 0
    bytes_rewritten: int = 0
    bytes_removed: int = 0
    """By how much rewritten files are smaller than the files they replaced."""
    files_deleted: int = 0
    """Deleted from storage by snapshot expiry and orphan removal."""
    bytes_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The fleet at a glance."""

    tables: TableFigures
    trend: tuple[TrendPoint, ...]
    """The last thirty days, oldest first; days without a health sync are omitted."""
    maintenance: CostFigures
    """Estimated and realised effect and cost of the runs of the last thirty days."""
    sickest: tuple[TableSummary, ...]
    jobs: Mapping[JobState, int]
    jobs_last_day: Mapping[JobState, int]
    """Jobs that ended within the last 24 hours, by final state."""
    workers: WorkerCounts
    cache: CacheState
    native_disabled: int
    """Number of tables for which the native rewrite is disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The cost of the runs in a period."""

    since: datetime
    until: datetime
    total: CostFigures
    by_day: Mapping[str, CostFigures]
    by_action: Mapping[str, CostFigures]
    by_table: Mapping[str, CostFigures]
    """The tables with the longest run time."""


class FleetStatistics:
    """Reads statistics and caches them for a few seconds."""

    def __init__(
        self,
        table_index: TableIndex,
        fleet_queries: FleetQueries,
        verification: VerificationStore,
        model: CostModel,
        clock: Callable[[], datetime],
    ) -> None:
        self._table_index = table_index
        self._fleet_queries = fleet_queries
        self._verification = verification
        self._model = model
        self._clock = clock
        self._counts: TtlCache[Mapping[JobState, int]] = TtlCache(COUNTS_SECONDS)
        self._ended: TtlCache[Mapping[JobState, int]] = TtlCache(COUNTS_SECONDS)
        self._trends: TtlCache[tuple[TrendPoint, ...]] = TtlCache(COSTS_SECONDS)
        self._running: TtlCache[Mapping[TableId, RunningJob]] = TtlCache(RUNNING_SECONDS)
        self._workers: TtlCache[WorkerCounts] = TtlCache(COUNTS_SECONDS)
        self._native_disabled: TtlCache[Mapping[TableId, NativeDisabled]] = TtlCache(COUNTS_SECONDS)
        self._costs: TtlCache[CostReport] = TtlCache(COSTS_SECONDS)
        self._tables: dict[tuple[int | None, Scopes], TableFigures] = {}

    def overview(self, scopes: Scopes) -> Overview:
        listing = self._table_index.listing().within(scopes)
        return Overview(
            tables=self._table_figures(listing, scopes),
            sickest=listing.by_score[:MAX_UNHEALTHY],
            jobs=self._counts.get(scopes, lambda: self._fleet_queries.job_counts(scopes)),
            jobs_last_day=self._ended.get(scopes, lambda: self._fleet_queries.ended_counts(self._days_ago(1), scopes)),
            workers=self._workers.get(None, self._fleet_queries.workers),
            trend=self._trends.get(scopes, lambda: self._trend(scopes)),
            maintenance=self.cost(scopes, TREND_DAYS).total,
            cache=self._table_index.state(),
            native_disabled=sum(is_in_scope(scopes, table) for table in self.native_disabled()),
        )

    def _days_ago(self, days: int) -> datetime:
        return self._clock() - timedelta(days=days)

    def _trend(self, scopes: Scopes) -> tuple[TrendPoint, ...]:
        return tuple(self._fleet_queries.trend(self._days_ago(TREND_DAYS - 1).date(), scopes))

    def running(self) -> Mapping[TableId, RunningJob]:
        """Returns the running jobs by table."""
        return self._running.get(None, lambda: {job.table: job for job in self._fleet_queries.running()})

    def native_disabled(self) -> Mapping[TableId, NativeDisabled]:
        """Returns the tables for which the native rewrite is disabled."""
        return self._native_disabled.get(
            None, lambda: {entry.table: entry for entry in self._verification.all_native_disabled()}
        )

    def cost(self, scopes: Scopes, days: int) -> CostReport:
        return self._costs.get((scopes, days), lambda: self._compute_costs(scopes, days))

    def _table_figures(self, listing: TableListing, scopes: Scopes) -> TableFigures:
        """Computed once per generation of the cache."""
        key = (listing.generation, scopes)
        if key not in self._tables:
            if any(generation != listing.generation for generation, _ in self._tables):
                self._tables = {}
            self._tables[key] = build_table_figures(listing.tables)
        return self._tables[key]

    def _compute_costs(self, scopes: Scopes, days: int) -> CostReport:
        until = self._clock()
        since = until - timedelta(days=days)
        lines = self._fleet_queries.costs_by_day(since, scopes)
        tables = self._fleet_queries.costs_by_table(since, scopes)
        return CostReport(
            since=since,
            until=until,
            total=self._sum_costs(line.sums for line in lines),
            by_day=self._group_costs(lines, lambda line: line.key[0]),
            by_action=self._group_costs(lines, lambda line: line.key[1]),
            by_table=self._group_costs(tables, lambda line: line.key[0]),
        )

    def _group_costs(self, lines: Iterable[CostLine], key: Callable[[CostLine], str]) -> dict[str, CostFigures]:
        groups: dict[str, list[CostSum]] = {}
        for line in lines:
            groups.setdefault(key(line), []).append(line.sums)
        return {name: self._sum_costs(sums) for name, sums in groups.items()}

    def _sum_costs(self, sums: Iterable[CostSum]) -> CostFigures:
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


def _count_bands(scores: Iterable[int]) -> tuple[ScoreBand, ...]:
    """The last band also contains a score of 100."""
    counts = Counter(min(score // 10 * 10, BAND_STARTS[-1]) for score in scores)
    ends = (*(start - 1 for start in BAND_STARTS[1:]), 100)
    return tuple(
        ScoreBand(min_score=start, max_score=end, tables=counts[start])
        for start, end in zip(BAND_STARTS, ends, strict=True)
    )


def _summarize_namespaces(tables: Iterable[TableSummary]) -> tuple[NamespaceFigures, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for item in tables:
        groups.setdefault((item.table.catalog, format_namespace(item.table)), []).append(item.score)
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))[:MAX_NAMESPACES]
    return tuple(
        NamespaceFigures(
            catalog=catalog, namespace=name, tables=len(scores), average_score=round(sum(scores) / len(scores), 1)
        )
        for (catalog, name), scores in sorted(largest)
    )


def build_table_figures(tables: Iterable[TableSummary]) -> TableFigures:
    found = list(tables)
    severities = Counter(item.brief.severity.value if item.brief.severity else "healthy" for item in found)
    totals = [item.totals for item in found]
    return TableFigures(
        count=len(found),
        average_score=round(sum(item.score for item in found) / len(found), 1) if found else None,
        by_score=_count_bands(item.score for item in found),
        by_severity={name: severities[name] for name in ("healthy", *Severity)},
        data_files=sum(total.data_files for total in totals),
        delete_files=sum(total.delete_files for total in totals),
        bytes=sum(total.bytes for total in totals),
        records=sum(total.records for total in totals),
        snapshots=sum(total.snapshots for total in totals),
        manifests=sum(total.manifests for total in totals),
        issues=dict(Counter(code for item in found for code in item.brief.issues)),
        namespaces=_summarize_namespaces(found),
        recommended=dict(Counter(kind for item in found for kind in item.brief.actions)),
        estimated_dollars=sum(item.brief.estimated_dollars for item in found),
    )
