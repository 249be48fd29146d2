"""The domain's objects, as the configuration has them."""

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

NEVER_WORTH_IT = 1e9
"""A share of deletes that no table reaches."""

_CHOICES: dict[frozenset[Strategy], Strategy | None] = {
    frozenset({Strategy.SMALL_FILES, Strategy.TIME_SERIES}): None,
    frozenset({Strategy.SMALL_FILES}): Strategy.SMALL_FILES,
    frozenset({Strategy.TIME_SERIES}): Strategy.TIME_SERIES,
    frozenset(): Strategy.DELETE_FILES,
}
"""Which strategy is left, by those that merge files; None lets icepack choose by table."""


def base_policy(config: CompactionConfig) -> Policy:
    """The policy of every table that has no rule of its own; `policy:` beats `compaction:`."""
    strategies, on = config.compaction.strategies, config.strategies_on
    applies_deletes = Strategy.DELETE_FILES in on
    policy = Policy(
        actions=tuple(kind for kind in DEFAULT_ACTIONS if on or kind is not ActionKind.COMPACT),
        strategy=_CHOICES[on - {Strategy.DELETE_FILES}],
        target_file_size=strategies.small_files.target_size or config.compaction.target_file_size,
        small_file_threshold=strategies.small_files.threshold,
        fragment_ratio_threshold=strategies.delete_files.fragment_ratio_threshold
        if applies_deletes
        else NEVER_WORTH_IT,
        open_partition_grace=strategies.time_series.open_partition_grace,
    )
    return replace(policy, **config.policy.values())


def policy_rules(config: CompactionConfig) -> tuple[PolicyRule, ...]:
    """What holds for some tables: `policies`, then `tables`."""
    shared = [PolicyRule(TablePattern.parse(entry.match), entry.values()) for entry in config.policies]
    own = [PolicyRule(TablePattern.parse(table.name), table.values()) for table in config.tables]
    return (*shared, *own)


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
"""What a scheduled compaction takes from its entry, word for word."""


def timetable(config: CompactionConfig, added: Sequence[ScheduleEntry] = ()) -> Timetable:
    """Every schedule; an entry without one of its own only adds to the policy."""
    scheduler = config.scheduler
    configured = [_schedule_entry(table, table.schedule) for table in config.tables if table.schedule]
    return Timetable(
        entries=(*configured, *added),
        default_line=scheduler.default_schedule,
        zone=scheduler_zone(config),
        jitter=scheduler.jitter,
        catch_up=scheduler.catch_up,
    )


def added_rules(entries: Iterable[Mapping[str, Any]]) -> tuple[PolicyRule, ...]:
    """Rules that were set through the API, in the words of `policies`."""
    read = [PolicyEntry.model_validate(dict(entry)) for entry in entries]
    return tuple(PolicyRule(TablePattern.parse(entry.match), entry.values()) for entry in read)


def added_schedules(entries: Iterable[Mapping[str, Any]]) -> tuple[ScheduleEntry, ...]:
    """Schedules that were set through the API, in the words of `tables`."""
    read = [TableEntry.model_validate(dict(entry)) for entry in entries]
    return tuple(_schedule_entry(table, table.schedule) for table in read if table.schedule)


def scheduler_zone(config: CompactionConfig) -> tzinfo:
    """By whose clock schedules, windows and days are meant."""
    name = config.scheduler.timezone
    return UTC if name == "UTC" else ZoneInfo(name)


def _schedule_entry(table: TableEntry, line: str) -> ScheduleEntry:
    values = table.values()
    given = {name: values[key] for key, name in _COMPACTION_PARAMETERS.items() if key in values}
    return ScheduleEntry(pattern=TablePattern.parse(table.name), line=line, compaction=given or None)


def named_tables(config: CompactionConfig) -> tuple[TablePattern, ...]:
    """The tables that the configuration calls by their names, and not by a glob."""
    patterns = (TablePattern.parse(table.name) for table in config.tables)
    return tuple(pattern for pattern in patterns if not pattern.is_glob)


def cost_model(config: CompactionConfig) -> CostModel:
    """The prices; `compaction.max_parallelism` counts unless `cost.parallelism` is given."""
    model = CostModel(**config.cost.model_dump())
    parallelism = config.compaction.max_parallelism
    if parallelism is None or "parallelism" in config.cost.model_fields_set:
        return model
    return replace(model, parallelism=parallelism)


def catalog_properties(config: CompactionConfig) -> dict[str, dict[str, str]]:
    """Every catalog's PyIceberg properties by name, completed from `storage:`."""
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
