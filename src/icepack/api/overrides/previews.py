"""Previews what policy and schedule overrides would change, from the table cache and without saving anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Protocol

from icepack.api.overrides.validation import parse_policies, parse_schedules
from icepack.api.schemas.policies import PutPolicies
from icepack.api.schemas.schedules import PutSchedules
from icepack.config import (
    CompactionConfig,
    build_base_policy,
    build_policy_rules,
    build_timetable,
    parse_policy_overrides,
    parse_schedule_overrides,
)
from icepack.config.policy_block import PolicyBlock
from icepack.domain.access import Scopes
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.pruning import find_matching_partitions
from icepack.domain.policy import Policy, PolicyRule, resolve_policy
from icepack.domain.ports.overrides import OverrideStore
from icepack.domain.ports.table_cache import CachedTable, TableCache, TableSummary
from icepack.domain.recommendation import PastRun, Recommendation, Situation, recommend
from icepack.domain.scheduling.schedule import ScheduleEntry, Timetable
from icepack.domain.table import TableId
from icepack.errors import ConfigError
from icepack.service.fleet.upcoming import ForecastQuery, UpcomingRun, forecast_runs
from icepack.service.live_overrides import POLICIES, SCHEDULES
from icepack.service.views.table_index import TableIndex, TableListing

# Settings that decide which files count as small. The cached status was computed with the old ones.
_INSPECTION_SETTINGS = ("target_file_size", "small_file_threshold")


class RunHistory(Protocol):
    def past_runs(self, table: TableId) -> list[PastRun]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """A table whose effective policy would change."""

    table: TableId
    # The values before and after, by setting.
    settings: Mapping[str, tuple[Any, Any]]
    before: Recommendation
    after: Recommendation
    # Whether the new settings also change which files count as small. If so, the recommendation is
    # only an estimate until the table is inspected again.
    estimated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreview:
    # The number of tables whose effective policy would change.
    tables: int
    changes: tuple[PolicyChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChange:
    table: TableId
    before: ScheduleEntry
    after: ScheduleEntry
    runs_before: int
    runs_after: int
    next_before: datetime | None
    next_after: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePreview:
    enabled: bool
    since: datetime
    until: datetime
    timezone: str
    # The number of tables whose schedule would change.
    tables: int
    changes: tuple[ScheduleChange, ...]
    # The runs on these tables, in order.
    runs: tuple[UpcomingRun, ...]
    total: int


class OverridePreviews:
    def __init__(
        self,
        *,
        config: CompactionConfig,
        overrides: OverrideStore,
        table_index: TableIndex,
        cache: TableCache,
        history: RunHistory,
        model: CostModel,
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._base = build_base_policy(config)
        self._rules = build_policy_rules(config)
        self._overrides = overrides
        self._table_index = table_index
        self._cache = cache
        self._history = history
        self._model = model
        self._clock = clock

    def preview_policies(self, request: PutPolicies, scopes: Scopes, limit: int) -> PolicyPreview:
        entries = parse_policies(request, self._config.enabled_strategies)
        old = parse_policy_overrides(self._overrides.read(POLICIES).entries)
        new = parse_policy_overrides(entries)
        before, after = (*self._rules, *old), (*self._rules, *new)
        listing = self._table_index.listing().within(scopes)
        affected = _find_affected(listing, old, new)
        changed = [summary.table for summary in affected if self._differs(summary, before, after)]
        changes = (self._compare_policies(table, before, after) for table in changed[:limit])
        return PolicyPreview(tables=len(changed), changes=tuple(change for change in changes if change is not None))

    def _differs(self, summary: TableSummary, before: Sequence[PolicyRule], after: Sequence[PolicyRule]) -> bool:
        properties = summary.brief.properties
        return self._resolve(before, summary.table, properties) != self._resolve(after, summary.table, properties)

    def _resolve(self, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]) -> Policy:
        try:
            return resolve_policy(self._base, rules, table, properties)
        except ConfigError:
            return resolve_policy(self._base, rules, table, {})

    def _compare_policies(
        self, table: TableId, before: Sequence[PolicyRule], after: Sequence[PolicyRule]
    ) -> PolicyChange | None:
        cached = self._cache.get(table)
        if cached is None:
            return None
        old, new = (self._resolve(rules, table, cached.status.properties) for rules in (before, after))
        settings = _compare_settings(old, new)
        past_runs = [run for run in self._history.past_runs(table) if run.table_uuid == cached.status.table_uuid]
        return PolicyChange(
            table=table,
            settings=settings,
            before=self._recommend(cached, old, past_runs),
            after=self._recommend(cached, new, past_runs),
            estimated=any(name in settings for name in _INSPECTION_SETTINGS),
        )

    def _recommend(self, cached: CachedTable, policy: Policy, past_runs: Sequence[PastRun]) -> Recommendation:
        now, text = self._clock(), policy.partition_filter
        matching = find_matching_partitions(cached.status.partitions, parse_filter(text, now)) if text else None
        return recommend(
            Situation(
                status=cached.status,
                health=cached.health,
                policy=policy,
                history=past_runs,
                model=self._model,
                now=now,
                matching=matching,
            )
        )

    def preview_schedules(
        self, request: PutSchedules, scopes: Scopes, horizon: timedelta, limit: int
    ) -> SchedulePreview:
        entries = parse_schedules(request, self._config.enabled_strategies)
        before = build_timetable(self._config, parse_schedule_overrides(self._overrides.read(SCHEDULES).entries))
        after = build_timetable(self._config, parse_schedule_overrides(entries))
        listing = self._table_index.listing().within(scopes)
        changed = [table for table in listing.by_name if before.entry_for(table) != after.entry_for(table)]
        now = self._clock()
        shown = changed[:limit]
        old = self._forecast(before, listing, shown, now, now + horizon)
        new = self._forecast(after, listing, shown, now, now + horizon)
        return SchedulePreview(
            enabled=self._config.scheduler.enabled,
            since=now,
            until=now + horizon,
            timezone=str(after.zone),
            tables=len(changed),
            changes=tuple(_compare_schedules(table, before, after, old, new) for table in shown),
            runs=tuple(new[:limit]),
            total=len(new),
        )

    def _forecast(
        self, timetable: Timetable, listing: TableListing, tables: Sequence[TableId], after: datetime, until: datetime
    ) -> Sequence[UpcomingRun]:
        rules = (*self._rules, *parse_policy_overrides(self._overrides.read(POLICIES).entries))
        query = ForecastQuery(
            timetable=timetable,
            cron_schedule=lambda table: timetable.cron_schedule(table, self._resolve(rules, table, {}).windows),
            own_windows=lambda table: self._resolve(rules, table, listing.by_name[table].brief.properties).windows,
            after=after,
            until=until,
        )
        return forecast_runs(query, tables).runs


def _find_affected(
    listing: TableListing, old: Sequence[PolicyRule], new: Sequence[PolicyRule]
) -> Iterable[TableSummary]:
    """Finds the tables that match an added, removed or changed rule, or any rule if the order of rules changed."""
    changed = [rule for rule in old if rule not in new] + [rule for rule in new if rule not in old]
    kept_old, kept_new = [rule for rule in old if rule in new], [rule for rule in new if rule in old]
    patterns = [rule.pattern for rule in (changed if kept_old == kept_new else (*old, *new))]
    return (summary for summary in listing.tables if any(pattern.matches(summary.table) for pattern in patterns))


def _compare_settings(before: Policy, after: Policy) -> dict[str, tuple[Any, Any]]:
    """Returns the settings that differ, with their values as the configuration file has them."""
    old, new = _to_configuration(before), _to_configuration(after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def _to_configuration(policy: Policy) -> dict[str, Any]:
    block = PolicyBlock.model_validate({field.name: getattr(policy, field.name) for field in fields(policy)})
    return block.model_dump(mode="json")


def _compare_schedules(
    table: TableId, before: Timetable, after: Timetable, old: Sequence[UpcomingRun], new: Sequence[UpcomingRun]
) -> ScheduleChange:
    old_runs, new_runs = ([run for run in runs if run.table == table] for runs in (old, new))
    return ScheduleChange(
        table=table,
        before=before.entry_for(table),
        after=after.entry_for(table),
        runs_before=len(old_runs),
        runs_after=len(new_runs),
        next_before=old_runs[0].occurrence.due_at if old_runs else None,
        next_after=new_runs[0].occurrence.due_at if new_runs else None,
    )
