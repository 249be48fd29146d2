"""Builds the domain's objects (policies, timetable, prices, catalogs) from the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from icepack.config.policy_block import PolicyEntry, TableEntry
from icepack.config.sections import StorageSettings
from icepack.config.settings import DEFAULT_CATALOG, CompactionConfig
from icepack.domain.actions import ActionKind, Strategy
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import DEFAULT_ACTIONS, Policy, PolicyRule
from icepack.domain.scheduling.schedule import ScheduleEntry, Timetable
from icepack.domain.table import TablePattern

# No table reaches this share of deleted rows, so deletes alone never cause a compaction.
UNREACHABLE_FRAGMENT_RATIO = 1e9

# The strategy for each set of enabled file-merging strategies; None lets icepack choose one for each table.
_STRATEGY_CHOICES: dict[frozenset[Strategy], Strategy | None] = {
    frozenset({Strategy.SMALL_FILES, Strategy.TIME_SERIES}): None,
    frozenset({Strategy.SMALL_FILES}): Strategy.SMALL_FILES,
    frozenset({Strategy.TIME_SERIES}): Strategy.TIME_SERIES,
    frozenset(): Strategy.DELETE_FILES,
}

# The settings that a scheduled compaction takes from its table entry, with the names of the action's parameters.
_COMPACTION_PARAMETERS = {
    "strategy": "strategy",
    "layout": "layout",
    "columns": "columns",
    "target_file_size": "target_file_bytes",
    "small_file_threshold": "small_file_bytes",
    "min_input_files": "min_input_files",
    "engine": "engine",
    "proof": "proof",
    "partial_progress": "partial_progress",
    "partition_filter": "partition_filter",
    "max_cost": "max_cost_dollars",
}


def build_base_policy(config: CompactionConfig) -> Policy:
    """Builds the policy of tables that no rule matches; `policy:` overrides `compaction:`."""
    strategies, enabled = config.compaction.strategies, config.enabled_strategies
    applies_deletes = Strategy.DELETE_FILES in enabled
    policy = Policy(
        actions=tuple(kind for kind in DEFAULT_ACTIONS if enabled or kind is not ActionKind.COMPACT),
        strategy=_STRATEGY_CHOICES[enabled - {Strategy.DELETE_FILES}],
        target_file_size=strategies.small_files.target_size or config.compaction.target_file_size,
        small_file_threshold=strategies.small_files.threshold,
        fragment_ratio_threshold=strategies.delete_files.fragment_ratio_threshold
        if applies_deletes
        else UNREACHABLE_FRAGMENT_RATIO,
        open_partition_grace=strategies.time_series.open_partition_grace,
    )
    return replace(policy, **config.policy.values())


def build_policy_rules(config: CompactionConfig) -> tuple[PolicyRule, ...]:
    """Builds the rules for some tables only: those of `policies`, then those of `tables`."""
    shared = [PolicyRule(TablePattern.parse(entry.match), entry.values()) for entry in config.policies]
    own = [PolicyRule(TablePattern.parse(table.name), table.values()) for table in config.tables]
    return (*shared, *own)


def build_timetable(config: CompactionConfig, added: Sequence[ScheduleEntry] = ()) -> Timetable:
    """Collects all schedules; a table entry without a schedule only contributes to the policy."""
    scheduler = config.scheduler
    configured = [_schedule_entry(table, table.schedule) for table in config.tables if table.schedule]
    return Timetable(
        entries=(*configured, *added),
        default_cron=scheduler.default_schedule,
        zone=scheduler_timezone(config),
        jitter=scheduler.jitter,
        catch_up=scheduler.catch_up,
    )


def parse_policy_overrides(entries: Iterable[Mapping[str, Any]]) -> tuple[PolicyRule, ...]:
    """Parses rules that were set through the API; they have the keys of `policies`."""
    parsed = [PolicyEntry.model_validate(dict(entry)) for entry in entries]
    return tuple(PolicyRule(TablePattern.parse(entry.match), entry.values()) for entry in parsed)


def parse_schedule_overrides(entries: Iterable[Mapping[str, Any]]) -> tuple[ScheduleEntry, ...]:
    """Parses schedules that were set through the API; they have the keys of `tables`."""
    parsed = [TableEntry.model_validate(dict(entry)) for entry in entries]
    return tuple(_schedule_entry(table, table.schedule) for table in parsed if table.schedule)


def scheduler_timezone(config: CompactionConfig) -> tzinfo:
    """Returns the time zone of schedules, maintenance windows and daily budgets."""
    name = config.scheduler.timezone
    return UTC if name == "UTC" else ZoneInfo(name)


def _schedule_entry(table: TableEntry, line: str) -> ScheduleEntry:
    values = table.values()
    parameters = {name: values[key] for key, name in _COMPACTION_PARAMETERS.items() if key in values}
    return ScheduleEntry(pattern=TablePattern.parse(table.name), cron=line, compaction=parameters or None)


def list_named_tables(config: CompactionConfig) -> tuple[TablePattern, ...]:
    """Lists the tables that the configuration names in full, without a glob."""
    patterns = (TablePattern.parse(table.name) for table in config.tables)
    return tuple(pattern for pattern in patterns if not pattern.is_glob)


def build_cost_model(config: CompactionConfig) -> CostModel:
    """Builds the cost model; `compaction.max_parallelism` applies unless `cost.parallelism` is set."""
    model = CostModel(**config.cost.model_dump())
    parallelism = config.compaction.max_parallelism
    if parallelism is None or "parallelism" in config.cost.model_fields_set:
        return model
    return replace(model, parallelism=parallelism)


def build_catalog_properties(config: CompactionConfig) -> dict[str, dict[str, str]]:
    """Returns the PyIceberg properties of each catalog by name, with defaults from `storage:`."""
    catalogs = dict(config.catalogs)
    if config.catalog:
        catalogs[DEFAULT_CATALOG] = catalogs.get(DEFAULT_CATALOG, {}) | config.catalog
    return {name: _storage_properties(config.storage) | properties for name, properties in catalogs.items()}


def _storage_properties(storage: StorageSettings) -> dict[str, str]:
    path_style = None if storage.path_style_access is None else str(storage.path_style_access).lower()
    properties = {
        "s3": {
            "warehouse": storage.bucket and f"s3://{storage.bucket}",
            "s3.region": storage.region,
            "s3.endpoint": storage.endpoint,
            "s3.access-key-id": storage.access_key_id,
            "s3.secret-access-key": storage.secret_access_key,
            "s3.path-style-access": path_style,
        },
        "gcs": {
            "warehouse": storage.bucket and f"gs://{storage.bucket}",
            "gcs.service.host": storage.endpoint,
        },
    }[storage.type]
    return {key: value for key, value in properties.items() if value}
