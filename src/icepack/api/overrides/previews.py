"""What policies and schedules would change, before anything is saved; made from the cache alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Protocol

from icepack.api.overrides.validation import policy_entries, schedule_entries
from icepack.api.schemas.fleet import PutPolicies, PutSchedules
from icepack.config import CompactionConfig, added_rules, added_schedules, base_policy, policy_rules, timetable
from icepack.config.policy_block import PolicyBlock
from icepack.domain.access import Scopes
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.expression import parse_filter
from icepack.domain.plan.pruning import may_match
from icepack.domain.policy import Policy, PolicyRule, resolve_policy
from icepack.domain.ports.access import OverrideStore
from icepack.domain.ports.queue import CachedTable, TableCache, TableSummary
from icepack.domain.recommendation.recommend import PastRun, Recommendation, Situation, recommend
from icepack.domain.scheduling.schedule import ScheduleEntry, Timetable
from icepack.domain.table import TableId
from icepack.errors import ConfigError
from icepack.service.fleet.upcoming import Outlook, Upcoming, forecast
from icepack.service.live_overrides import POLICIES, SCHEDULES
from icepack.service.views.table_index import Directory, Listing

LENS = ("target_file_size", "small_file_threshold")
"""Settings by which a table's files are measured: a cached status was measured by the old ones."""


class Past(Protocol):
    def past_runs(self, table: TableId) -> list[PastRun]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """One table whose effective policy would be another."""

    table: TableId
    settings: Mapping[str, tuple[Any, Any]]
    """Before and after."""
    before: Recommendation
    after: Recommendation
    estimated: bool
    """Whether the new settings also change what is measured: then the next look at the table will tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreview:
    tables: int
    """Tables whose effective policy would be another."""
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
    tables: int
    """Tables whose schedule would be another."""
    changes: tuple[ScheduleChange, ...]
    runs: tuple[Upcoming, ...]
    """Of these tables, in order."""
    total: int


class Previews:
    def __init__(
        self,
        *,
        config: CompactionConfig,
        overrides: OverrideStore,
        directory: Directory,
        cache: TableCache,
        past: Past,
        model: CostModel,
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._base = base_policy(config)
        self._rules = policy_rules(config)
        self._overrides = overrides
        self._directory = directory
        self._cache = cache
        self._past = past
        self._model = model
        self._clock = clock

    def policies(self, asked: PutPolicies, scopes: Scopes, limit: int) -> PolicyPreview:
        entries = policy_entries(asked, self._config.strategies_on)
        old = added_rules(self._overrides.read(POLICIES).entries)
        new = added_rules(entries)
        before, after = (*self._rules, *old), (*self._rules, *new)
        listing = self._directory.listing().within(scopes)
        differing = [item.table for item in _concerned(listing, old, new) if self._differs(item, before, after)]
        found = (self._change(table, before, after) for table in differing[:limit])
        return PolicyPreview(tables=len(differing), changes=tuple(change for change in found if change is not None))

    def _differs(self, item: TableSummary, before: Sequence[PolicyRule], after: Sequence[PolicyRule]) -> bool:
        properties = item.brief.properties
        return self._policy(before, item.table, properties) != self._policy(after, item.table, properties)

    def _policy(self, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]) -> Policy:
        try:
            return resolve_policy(self._base, rules, table, properties)
        except ConfigError:
            return resolve_policy(self._base, rules, table, {})

    def _change(self, table: TableId, before: Sequence[PolicyRule], after: Sequence[PolicyRule]) -> PolicyChange | None:
        cached = self._cache.get(table)
        if cached is None:
            return None
        old, new = (self._policy(rules, table, cached.status.properties) for rules in (before, after))
        settings = _settings(old, new)
        past = [run for run in self._past.past_runs(table) if run.table_uuid == cached.status.table_uuid]
        return PolicyChange(
            table=table,
            settings=settings,
            before=self._recommend(cached, old, past),
            after=self._recommend(cached, new, past),
            estimated=any(name in settings for name in LENS),
        )

    def _recommend(self, cached: CachedTable, policy: Policy, past: Sequence[PastRun]) -> Recommendation:
        now, text = self._clock(), policy.partition_filter
        matching = may_match(cached.status.partitions, parse_filter(text, now)) if text else None
        return recommend(
            Situation(
                status=cached.status,
                health=cached.health,
                policy=policy,
                history=past,
                model=self._model,
                now=now,
                matching=matching,
            )
        )

    def schedules(self, asked: PutSchedules, scopes: Scopes, span: timedelta, limit: int) -> SchedulePreview:
        entries = schedule_entries(asked, self._config.strategies_on)
        before = timetable(self._config, added_schedules(self._overrides.read(SCHEDULES).entries))
        after = timetable(self._config, added_schedules(entries))
        listing = self._directory.listing().within(scopes)
        differing = [table for table in listing.by_name if before.entry_for(table) != after.entry_for(table)]
        now = self._clock()
        shown = differing[:limit]
        old = self._ahead(before, listing, shown, now, now + span)
        new = self._ahead(after, listing, shown, now, now + span)
        return SchedulePreview(
            enabled=self._config.scheduler.enabled,
            since=now,
            until=now + span,
            timezone=str(after.zone),
            tables=len(differing),
            changes=tuple(_schedule_change(table, before, after, old, new) for table in shown),
            runs=tuple(new[:limit]),
            total=len(new),
        )

    def _ahead(
        self, plan: Timetable, listing: Listing, tables: Sequence[TableId], after: datetime, until: datetime
    ) -> Sequence[Upcoming]:
        rules = (*self._rules, *added_rules(self._overrides.read(POLICIES).entries))
        outlook = Outlook(
            timetable=plan,
            rhythm=lambda table: plan.rhythm(table, self._policy(rules, table, {}).windows),
            own_windows=lambda table: self._policy(rules, table, listing.by_name[table].brief.properties).windows,
            after=after,
            until=until,
        )
        return forecast(outlook, tables).runs


def _concerned(listing: Listing, old: Sequence[PolicyRule], new: Sequence[PolicyRule]) -> Iterable[TableSummary]:
    """Tables that a rule means which comes, goes or changes; where only their order does, all that they mean."""
    changed = [rule for rule in old if rule not in new] + [rule for rule in new if rule not in old]
    kept_old, kept_new = [rule for rule in old if rule in new], [rule for rule in new if rule in old]
    patterns = [rule.pattern for rule in (changed if kept_old == kept_new else (*old, *new))]
    return (item for item in listing.tables if any(pattern.matches(item.table) for pattern in patterns))


def _settings(before: Policy, after: Policy) -> dict[str, tuple[Any, Any]]:
    """Those that differ, in the words of the configuration."""
    old, new = _worded(before), _worded(after)
    return {name: (old[name], new[name]) for name in old if old[name] != new[name]}


def _worded(policy: Policy) -> dict[str, Any]:
    block = PolicyBlock.model_validate({field.name: getattr(policy, field.name) for field in fields(policy)})
    return block.model_dump(mode="json")


def _schedule_change(
    table: TableId, before: Timetable, after: Timetable, old: Sequence[Upcoming], new: Sequence[Upcoming]
) -> ScheduleChange:
    old_runs, new_runs = ([item for item in runs if item.table == table] for runs in (old, new))
    return ScheduleChange(
        table=table,
        before=before.entry_for(table),
        after=after.entry_for(table),
        runs_before=len(old_runs),
        runs_after=len(new_runs),
        next_before=old_runs[0].occurrence.due_at if old_runs else None,
        next_after=new_runs[0].occurrence.due_at if new_runs else None,
    )
