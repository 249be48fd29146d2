"""CompactionService: what the command line and the services ask for, composed from the ports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event
from typing import Any

from icepack.clock import utc_now
from icepack.domain.action_parameters import complete_action
from icepack.domain.actions import Action, ActionKind, Compact, ExpireSnapshots
from icepack.domain.health import assess_health
from icepack.domain.plan.compaction import CompactionPlan, plan_action
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.select import SelectionRules
from icepack.domain.policy import Policy
from icepack.domain.ports.catalog import DiscoveredTables, Discovery, ExpiryPreview, MetadataInspector, SizeThresholds
from icepack.domain.ports.engine import ProgressSink, no_progress
from icepack.domain.ports.history import HistoryStore
from icepack.domain.recommendation import PastRun, RecommendedAction, Situation, choose_strategy, recommend
from icepack.domain.run import RunRecord
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.errors import IcepackError
from icepack.service.advice import Advice, Assessment, PolicyResolver, TablePlan, find_compaction
from icepack.service.runs.outcome import may_have_changed_table
from icepack.service.runs.request import Runner, RunRequest
from icepack.service.table_selection import TableSelector

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainStep:
    """One result of `maintain`: a run, or a table that could not be read."""

    table: TableId
    record: RunRecord | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainOptions:
    """How `maintain` runs, for all its tables."""

    progress: ProgressSink = no_progress
    cancel: Event | None = None
    on_start: Callable[[TableId, RecommendedAction], None] | None = None
    settings: Mapping[str, Any] | None = None


class CompactionService:
    """Has no state of its own: every call reads the current state of the tables."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        inspector: MetadataInspector,
        history: HistoryStore,
        runner: Runner,
        policies: PolicyResolver,
        model: CostModel,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._selector = TableSelector(discovery)
        self._inspector = inspector
        self.history = history
        self._runner = runner
        self._policies = policies
        self._model = model
        self._clock = clock

    def tables(self, patterns: Sequence[str] = (), *, include_internal: bool = False) -> list[TableId]:
        """Returns the tables that match the patterns; without patterns, all tables that are not internal."""
        return list(self.discover(patterns, include_internal=include_internal).tables)

    def discover(self, patterns: Sequence[str] = (), *, include_internal: bool = False) -> DiscoveredTables:
        """Returns the tables that match the patterns, and the catalogs that did not answer."""
        return self._selector.discover(patterns, include_internal=include_internal)

    def table(self, pattern: str, catalog: str | None = None) -> TableId:
        """Returns the one table that a name means, in one catalog or in all."""
        return self._selector.find(pattern, catalog)

    def assess(self, table: TableId) -> Assessment:
        status = self._inspector.inspect(table)
        return Assessment(status=status, health=assess_health(status, self._clock()))

    def advise(self, table: TableId, settings: Mapping[str, Any] | None = None) -> Advice:
        """Inspects the table once and recommends actions; `settings` replace settings of the policy for this call.

        Health is measured by the table's own sizes, the recommendation by those of the policy.
        """
        return _build_advice(self._read_situation(table, settings))

    def _read_situation(self, table: TableId, settings: Mapping[str, Any] | None = None) -> Situation:
        status, measured = self._inspector.inspect_with_thresholds(
            table, lambda own: _size_thresholds(self._policy_for(own))
        )
        policy = replace(self._policy_for(status), **settings or {})
        return Situation(
            status=measured,
            health=assess_health(status, self._clock()),
            policy=policy,
            history=self._past_runs(measured),
            model=self._model,
            now=self._clock(),
            matching=self._matching_partitions(table, policy),
        )

    def _policy_for(self, status: TableStatus) -> Policy:
        return self._policies.policy_for(status.table, status.properties)

    def _past_runs(self, status: TableStatus) -> list[PastRun]:
        """Ignores runs on a table that had the same name before and has been dropped."""
        return [run for run in self.history.past_runs(status.table) if run.table_uuid == status.table_uuid]

    def _matching_partitions(self, table: TableId, policy: Policy) -> frozenset[PartitionKey] | None:
        if policy.partition_filter is None:
            return None
        return self._inspector.matching_partitions(table, parse_filter(policy.partition_filter, self._clock()))

    def plan(self, table: TableId) -> TablePlan:
        """Plans the recommended compaction, and previews the expiry if one is recommended."""
        plan = self.plan_compaction(table)
        expiry = plan.advice.find(ActionKind.EXPIRE_SNAPSHOTS)
        if expiry is None or not isinstance(expiry.action, ExpireSnapshots):
            return plan
        return replace(plan, expiry=self.preview_expiry(table, expiry.action))

    def plan_compaction(self, table: TableId, action: Compact | None = None) -> TablePlan:
        """Plans this compaction; without one the recommended compaction, else one with the policy's strategy."""
        situation = self._read_situation(table)
        advice = _build_advice(situation)
        chosen = action or find_compaction(advice.recommendation) or Compact(strategy=choose_strategy(situation))
        return TablePlan(advice=advice, compaction=self._plan_action(table, chosen, advice.policy))

    def preview_expiry(self, table: TableId, action: ExpireSnapshots) -> ExpiryPreview:
        return self._inspector.preview_expiry(table, action, self._clock())

    def _plan_action(self, table: TableId, action: Compact, policy: Policy) -> CompactionPlan:
        now = self._clock()
        filter_text = action.partition_filter or policy.partition_filter
        listing = self._inspector.files(table, parse_filter(filter_text, now) if filter_text else None)
        rules = SelectionRules(
            target_file_bytes=policy.target_file_size,
            small_file_bytes=policy.small_file_threshold,
            max_files_per_partition=policy.max_files_per_partition,
            max_delete_ratio=policy.fragment_ratio_threshold,
        )
        return plan_action(
            action, listing, defaults=rules, now=now, model=self._model, open_grace=policy.open_partition_grace
        )

    def prepare(self, table: TableId, kind: ActionKind, given: Mapping[str, Any]) -> Action:
        """Builds an action from the parameters that were given, and from the policy for the others."""
        situation = self._read_situation(table)
        strategy = choose_strategy(situation)
        return complete_action(kind, given, situation.status, situation.policy, strategy, situation.now)

    def run(
        self, table: TableId, action: Action, *, progress: ProgressSink = no_progress, cancel: Event | None = None
    ) -> RunRecord:
        """Runs one action; refuses it if its estimated cost is over its limit."""
        return self._runner.run(RunRequest(table=table, action=action, progress=progress, cancel=cancel))

    def maintain(
        self,
        tables: Sequence[TableId],
        *,
        progress: ProgressSink = no_progress,
        cancel: Event | None = None,
        on_start: Callable[[TableId, RecommendedAction], None] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[MaintainStep]:
        """Runs everything that is recommended, in order; a failure of one action or table stops no other."""
        options = MaintainOptions(progress=progress, cancel=cancel, on_start=on_start, settings=settings)
        for table in tables:
            yield from self._maintain_table(table, options)

    def _maintain_table(self, table: TableId, options: MaintainOptions) -> Iterator[MaintainStep]:
        """Inspects the table first, and again only after a run that may have changed it."""
        situation: Situation | None = None
        for kind in ActionKind:
            if options.cancel is not None and options.cancel.is_set():
                return
            try:
                situation = situation or self._read_situation(table, options.settings)
                recommended = _build_advice(situation).find(kind)
            except Exception as exc:
                yield MaintainStep(table=table, error=_describe_inspection_error(table, exc))
                return
            if recommended is None:
                continue
            record = self._run_recommended(table, recommended, options)
            yield MaintainStep(table=table, record=record)
            situation = self._update_situation(situation, record)

    def _update_situation(self, situation: Situation, record: RunRecord) -> Situation | None:
        """Returns the situation after the run; None if the table has to be inspected again.

        A run that changed nothing still changes the history, which later recommendations depend on.
        """
        if may_have_changed_table(record):
            return None
        try:
            return replace(situation, history=self._past_runs(situation.status), now=self._clock())
        except IcepackError:
            return None

    def _run_recommended(self, table: TableId, recommended: RecommendedAction, options: MaintainOptions) -> RunRecord:
        if options.on_start is not None:
            options.on_start(table, recommended)
        request = RunRequest(
            table=table,
            action=recommended.action,
            expected=recommended.effect,
            estimate=recommended.cost,
            progress=options.progress,
            cancel=options.cancel,
        )
        return self._runner.run(request)


def _build_advice(situation: Situation) -> Advice:
    return Advice(
        status=situation.status,
        health=situation.health,
        policy=situation.policy,
        recommendation=recommend(situation),
    )


def _describe_inspection_error(table: TableId, exc: Exception) -> str:
    if isinstance(exc, IcepackError):
        return str(exc)
    log.error("%s could not be inspected", table, exc_info=exc)
    return f"Unexpected {type(exc).__name__}: {exc}"


def _size_thresholds(policy: Policy) -> SizeThresholds:
    return SizeThresholds(target_file_bytes=policy.target_file_size, small_file_bytes=policy.small_file_threshold)
