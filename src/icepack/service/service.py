"""CompactionService: what every way in asks for, composed from the ports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event
from typing import Any

from icepack.domain.action_parameters import complete
from icepack.domain.actions import Action, ActionKind, Compact, ExpireSnapshots, Strategy
from icepack.domain.health import HealthReport, assess
from icepack.domain.plan.compaction import CompactionPlan, plan_action
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.select import SelectionRules
from icepack.domain.policy import Policy, PolicyRule, resolve_policy
from icepack.domain.ports.engine import (
    DiscoveredTables,
    Discovery,
    ExpiryPreview,
    HistoryStore,
    MetadataInspector,
    ProgressSink,
    SizeLens,
    no_progress,
)
from icepack.domain.recommendation.recommend import (
    PastRun,
    Recommendation,
    RecommendedAction,
    Situation,
    choose_strategy,
    recommend,
)
from icepack.domain.run import RunRecord
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId, TablePattern, is_internal, select_tables
from icepack.errors import CatalogFault, IcepackError, Refused, TableNotFound
from icepack.service.maintenance import MaintenanceRunner, RunRequest, failed_record, utc_now
from icepack.service.runs.cost_limit import check_cost

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBook:
    base: Policy
    rules: Sequence[PolicyRule]

    def policy_for(self, table: TableId, properties: Mapping[str, str]) -> Policy:
        return resolve_policy(self.base, self.rules, table, properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A table's status and health."""

    status: TableStatus
    health: HealthReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A table's status, health, policy and what follows from them."""

    status: TableStatus
    health: HealthReport
    policy: Policy
    recommendation: Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """The dry run: what compaction and expiry would do, without doing it."""

    advice: Advice
    compaction: CompactionPlan
    expiry: ExpiryPreview | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainStep:
    """One thing that happened during `maintain`: a run, or a table that could not even be read."""

    table: TableId
    record: RunRecord | None = None
    error: str = ""


class CompactionService:
    """Stateless: every call reads what is true now."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        inspector: MetadataInspector,
        history: HistoryStore,
        runner: MaintenanceRunner,
        policies: PolicyBook,
        model: CostModel,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._discovery = discovery
        self._inspector = inspector
        self.history = history
        self._runner = runner
        self._policies = policies
        self._model = model
        self._clock = clock

    def tables(self, patterns: Sequence[str] = (), *, include_internal: bool = False) -> list[TableId]:
        """The tables that the patterns mean; without any, all but the internal ones."""
        return list(self.discover(patterns, include_internal=include_internal).tables)

    def discover(self, patterns: Sequence[str] = (), *, include_internal: bool = False) -> DiscoveredTables:
        """The same, with the catalogs that did not answer; raises CatalogFault where none did."""
        exact = [self._exact(pattern) for pattern in patterns]
        if patterns and all(table is not None for table in exact):
            return DiscoveredTables(tables=tuple(dict.fromkeys(table for table in exact if table is not None)))
        found = _check_answered(self._discovery.discover())
        chosen = self._select(patterns, found) if patterns else list(found.tables)
        named = {pattern for pattern in patterns if not TablePattern.parse(pattern).is_glob}
        shown = [
            table for table in chosen if not is_internal(table) or include_internal or self._is_named(table, named)
        ]
        return replace(found, tables=tuple(shown))

    def _select(self, patterns: Sequence[str], found: DiscoveredTables) -> list[TableId]:
        try:
            return select_tables(patterns, found.tables)
        except TableNotFound as exc:
            if not found.silent_catalogs:
                raise
            raise CatalogFault(exc.message, " ".join(found.silent_catalogs.values())) from exc

    def table(self, pattern: str, catalog: str | None = None) -> TableId:
        """The one table that a name means, in one catalog or in all.

        A short name must not be taken for another catalog's table while its own catalog does not answer.
        """
        found = self._exact(pattern)
        if found is not None:
            return found
        try:
            return select_tables([pattern], self._discovery.tables(catalog))[0]
        except CatalogFault as exc:
            raise CatalogFault(
                exc.message, f"{exc.remedy} A full name (catalog.namespace.table) is found without it."
            ) from exc

    def _exact(self, text: str) -> TableId | None:
        """A full name is looked up directly: listing a large catalog takes long."""
        pattern = TablePattern.parse(text)
        if pattern.is_glob or len(pattern.parts) < 3:
            return None
        parts = pattern.plain_parts
        table = TableId(parts[0], parts[1:-1], parts[-1])
        return table if self._discovery.exists(table) else None

    def _is_named(self, table: TableId, names: set[str]) -> bool:
        return any(TablePattern.parse(name).matches(table) for name in names)

    def assess(self, table: TableId) -> Assessment:
        status = self._inspector.inspect(table)
        return Assessment(status=status, health=assess(status, self._clock()))

    def advise(self, table: TableId, settings: Mapping[str, Any] | None = None) -> Advice:
        """Health by the table's own measure; the recommendation by the policy's, with `settings` of this call."""
        status, measured = self._inspector.inspect_both(table, lambda own: _lens(self._policy_for(own)))
        policy, health = replace(self._policy_for(status), **settings or {}), assess(status, self._clock())
        situation = Situation(
            status=measured,
            health=health,
            policy=policy,
            history=self._past_runs(measured),
            model=self._model,
            now=self._clock(),
            matching=self._matching(table, policy),
        )
        return Advice(status=measured, health=health, policy=policy, recommendation=recommend(situation))

    def _policy_for(self, status: TableStatus) -> Policy:
        return self._policies.policy_for(status.table, status.properties)

    def _past_runs(self, status: TableStatus) -> list[PastRun]:
        """Of this very table: one that was dropped and made again under the same name has no past."""
        return [run for run in self.history.past_runs(status.table) if run.table_uuid == status.table_uuid]

    def _matching(self, table: TableId, policy: Policy) -> frozenset[PartitionKey] | None:
        if policy.partition_filter is None:
            return None
        return self._inspector.matching_partitions(table, parse_filter(policy.partition_filter, self._clock()))

    def plan(self, table: TableId, wanted: Compact | None = None) -> TablePlan:
        """The dry run for one table; `wanted` stands for the flags of a compaction by hand."""
        advice = self.advise(table)
        chosen = next(
            (item for item in advice.recommendation.actions if item.kind is ActionKind.EXPIRE_SNAPSHOTS), None
        )
        expiry = None
        if chosen is not None and isinstance(chosen.action, ExpireSnapshots):
            expiry = self._inspector.preview_expiry(table, chosen.action, self._clock())
        return TablePlan(advice=advice, compaction=self._plan_compaction(table, advice, wanted), expiry=expiry)

    def preview_expiry(self, table: TableId, action: ExpireSnapshots) -> ExpiryPreview:
        return self._inspector.preview_expiry(table, action, self._clock())

    def _plan_compaction(self, table: TableId, advice: Advice, wanted: Compact | None) -> CompactionPlan:
        action = wanted or self._recommended_compaction(advice) or Compact(strategy=self._strategy(advice))
        now = self._clock()
        filter_text = action.partition_filter or advice.policy.partition_filter
        where = parse_filter(filter_text, now) if filter_text else None
        listing = self._inspector.files(table, where)
        policy = advice.policy
        rules = SelectionRules(
            target_file_bytes=policy.target_file_size,
            small_file_bytes=policy.small_file_threshold,
            max_files_per_partition=policy.max_files_per_partition,
            max_delete_ratio=policy.fragment_ratio_threshold,
        )
        return plan_action(
            action, listing, otherwise=rules, now=now, model=self._model, open_grace=policy.open_partition_grace
        )

    def _recommended_compaction(self, advice: Advice) -> Compact | None:
        found = [item.action for item in advice.recommendation.actions if isinstance(item.action, Compact)]
        return found[0] if found else None

    def _strategy(self, advice: Advice) -> Strategy:
        situation = Situation(
            status=advice.status,
            health=advice.health,
            policy=advice.policy,
            history=(),
            model=self._model,
            now=self._clock(),
        )
        return choose_strategy(situation)

    def prepare(self, table: TableId, kind: ActionKind, given: Mapping[str, Any]) -> Action:
        """The action with its exact parameters: what was given, and the policy for the rest."""
        advice = self.advise(table)
        strategy = self._strategy(advice)
        return complete(kind, given, advice.status, advice.policy, strategy, self._clock())

    def run(
        self, table: TableId, action: Action, *, progress: ProgressSink = no_progress, cancel: Event | None = None
    ) -> RunRecord:
        """One action by hand, refused when its estimate is over what it may cost."""
        request = RunRequest(table=table, action=action, progress=progress, cancel=cancel)
        if isinstance(action, Compact):
            request = replace(request, estimate=self.plan(table, action).compaction.cost)
        try:
            check_cost(request)
        except Refused as exc:
            refused = failed_record(request, exc, self._clock())
            self.history.save(refused)
            return refused
        return self._runner.run(request)

    def maintain(
        self,
        tables: Sequence[TableId],
        *,
        progress: ProgressSink = no_progress,
        cancel: Event | None = None,
        on_start: Callable[[TableId, RecommendedAction], None] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[MaintainStep]:
        """Everything recommended, in order; a failure of one action or table stops no other."""
        for table in tables:
            for kind in ActionKind:
                if cancel is not None and cancel.is_set():
                    return
                step = self._maintain_one(table, kind, progress, cancel, on_start, settings)
                if step is not None:
                    yield step
                if step is not None and step.error:
                    break

    def _maintain_one(
        self,
        table: TableId,
        kind: ActionKind,
        progress: ProgressSink,
        cancel: Event | None,
        on_start: Callable[[TableId, RecommendedAction], None] | None,
        settings: Mapping[str, Any] | None,
    ) -> MaintainStep | None:
        """Asked again before each action, because the one before has changed the table."""
        try:
            advised = self.advise(table, settings).recommendation.actions
            recommended = next((item for item in advised if item.kind is kind), None)
        except IcepackError as exc:
            return MaintainStep(table=table, error=str(exc))
        except Exception as exc:
            log.exception("%s could not be looked at", table)
            return MaintainStep(table=table, error=f"Unexpected {type(exc).__name__}: {exc}")
        if recommended is None:
            return None
        if on_start is not None:
            on_start(table, recommended)
        request = RunRequest(
            table=table,
            action=recommended.action,
            expected=recommended.effect,
            estimate=recommended.cost,
            progress=progress,
            cancel=cancel,
        )
        return MaintainStep(table=table, record=self._runner.run(request))


def _check_answered(found: DiscoveredTables) -> DiscoveredTables:
    if found.silent_catalogs and not found.tables:
        raise CatalogFault(" ".join(found.silent_catalogs.values()))
    return found


def _lens(policy: Policy) -> SizeLens:
    return SizeLens(target_file_bytes=policy.target_file_size, small_file_bytes=policy.small_file_threshold)
