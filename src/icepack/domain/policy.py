"""Policy: which actions may run on a table, and with which thresholds.

Layers, from weakest to strongest: defaults, catalog, namespace glob, table glob, the table's own `icepack.*`
properties. The most specific rule wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from icepack.domain.actions import ActionKind, Layout, RewriteEngine, Strategy
from icepack.domain.scheduling.windows import Window, parse_windows
from icepack.domain.status import DEFAULT_TARGET_FILE_BYTES
from icepack.domain.table import TableId, TablePattern
from icepack.domain.units import MIB, from_milliseconds, parse_duration, parse_size
from icepack.domain.verification import ProofLevel
from icepack.errors import ConfigError

PROPERTY_PREFIX = "icepack."
DEFAULT_ACTIONS = tuple(kind for kind in ActionKind if kind is not ActionKind.COMPUTE_STATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings for one table, with all layers merged."""

    enabled: bool = True
    actions: tuple[ActionKind, ...] = DEFAULT_ACTIONS
    # None lets icepack choose the strategy by the issues of the table.
    strategy: Strategy | None = None
    layout: Layout = Layout.BINPACK
    columns: tuple[str, ...] = ()
    target_file_size: int = DEFAULT_TARGET_FILE_BYTES
    small_file_threshold: int = 32 * MIB
    max_files_per_partition: int = 1000
    min_input_files: int = 5
    fragment_ratio_threshold: float = 0.1
    engine: RewriteEngine = RewriteEngine.NATIVE
    # How much of the data that a compaction rewrites is compared by value before it is committed.
    proof: ProofLevel = ProofLevel.SAMPLED
    partial_progress: bool = False
    partition_filter: str | None = None
    open_partition_grace: timedelta = timedelta(hours=1)
    snapshot_retention: timedelta = timedelta(days=7)
    min_snapshots_to_keep: int = 1
    orphan_retention: timedelta = timedelta(days=7)
    orphan_interval: timedelta = timedelta(days=7)
    max_orphan_files: int = 100_000
    max_orphan_share: float = 0.5
    # How long to wait before an action is recommended again, if nothing was written since it last ran.
    repeat_after: timedelta = timedelta(hours=1)
    max_cost: float | None = None
    # How often the table is read; used to estimate what removing a file saves.
    scans_per_day: float = 24.0
    # Maintenance windows in which jobs may start automatically; empty means at any time.
    windows: tuple[Window, ...] = ()
    # Dollars per day, shared by all tables that get this setting from the same layer.
    daily_budget: float | None = None
    # Core time per day, shared in the same way.
    daily_compute: timedelta | None = None


def _parse_bool(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        raise ValueError(f"'{value}' is not true or false")
    return text in ("true", "yes", "on", "1")


def _parse_names(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    return tuple(str(item).strip() for item in items if str(item).strip())


def _choice_parser(kind: type[StrEnum]) -> Callable[[Any], Any]:
    def parse_choice(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"'{value}' is not one of {', '.join(kind)}") from None

    return parse_choice


def _parse_action_kinds(value: Any) -> tuple[ActionKind, ...]:
    named = {_choice_parser(ActionKind)(name.replace("-", "_")) for name in _parse_names(value)}
    return tuple(kind for kind in ActionKind if kind in named)


def _parse_int(value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"'{value}' is not a whole number") from None


def _parse_number(value: Any) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"'{value}' is not a number")
    return number


def _optional_parser(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value in (None, "", "auto", "none") else parse(value)


def _min_parser(minimum: float, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parse_with_minimum(value: Any) -> Any:
        number = parse(value)
        if number < minimum:
            raise ValueError(f"'{value}' is less than the minimum of {minimum}")
        return number

    return parse_with_minimum


def _parse_share(value: Any) -> float:
    number = _parse_number(value)
    if not 0 <= number <= 1:
        raise ValueError(f"'{value}' is not between 0 and 1")
    return number


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "enabled": _parse_bool,
    "actions": _parse_action_kinds,
    "strategy": _optional_parser(_choice_parser(Strategy)),
    "layout": _choice_parser(Layout),
    "columns": _parse_names,
    "target_file_size": _min_parser(1, parse_size),
    "small_file_threshold": parse_size,
    "max_files_per_partition": _min_parser(1, _parse_int),
    "min_input_files": _min_parser(1, _parse_int),
    "fragment_ratio_threshold": _min_parser(0, _parse_number),
    "engine": _choice_parser(RewriteEngine),
    "proof": _choice_parser(ProofLevel),
    "partial_progress": _parse_bool,
    "partition_filter": _optional_parser(str),
    "open_partition_grace": parse_duration,
    "snapshot_retention": parse_duration,
    "min_snapshots_to_keep": _min_parser(1, _parse_int),
    "orphan_retention": parse_duration,
    "orphan_interval": parse_duration,
    "max_orphan_files": _min_parser(0, _parse_int),
    "max_orphan_share": _parse_share,
    "repeat_after": parse_duration,
    "max_cost": _optional_parser(_min_parser(0, _parse_number)),
    "scans_per_day": _min_parser(0, _parse_number),
    "windows": parse_windows,
    "daily_budget": _optional_parser(_min_parser(0, _parse_number)),
    "daily_compute": _optional_parser(parse_duration),
}

POLICY_KEYS = tuple(field.name for field in fields(Policy))


def read_policy_values(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Parses policy settings; errors for an unknown key or an invalid value name their source, `where`."""
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_").replace(".", "_")
        if name not in _PARSERS:
            raise ConfigError(f"{where}: '{key}' is not a policy setting.", f"Use one of: {', '.join(POLICY_KEYS)}.")
        parsed[name] = _parse(_PARSERS[name], key, value, where)
    return parsed


def _parse(parser: Callable[[Any], Any], key: str, value: Any, where: str) -> Any:
    try:
        return parser(value)
    except (ValueError, TypeError) as exc:
        raise ConfigError(f"{where}: '{key}': {exc}.") from exc


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Policy settings for every table that matches the pattern."""

    pattern: TablePattern
    values: Mapping[str, Any]

    def specificity(self, table: TableId) -> tuple[int, int, int, int]:
        """Sort key: catalog rules first, then namespace globs, then table globs; among equals, more literal ones later.

        It depends on the table, because `sales.*` may name a catalog or a namespace.
        """
        parts = self.pattern.parts
        literal = [quoted or not set("*?[") & set(part) for part, quoted in parts]
        depth = (self.pattern.omitted_parts(table) or 0) + len(parts) - (parts[-1] == ("*", False))
        return (depth, literal[-1], sum(literal), len(self.pattern.text))


def resolve_policy(base: Policy, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]) -> Policy:
    """Merges the base policy, all matching rules and the table's properties into the table's policy."""
    policy = base
    matching = (rule for rule in rules if rule.pattern.matches(table))
    for rule in sorted(matching, key=lambda rule: rule.specificity(table)):
        policy = replace(policy, **rule.values)
    return replace(policy, **_parse_properties(table, properties))


def _parse_milliseconds(value: Any) -> timedelta:
    return from_milliseconds(_min_parser(0, _parse_int)(value))


_ICEBERG_PROPERTIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "write.target-file-size-bytes": ("target_file_size", _min_parser(1, _parse_int)),
    "history.expire.max-snapshot-age-ms": ("snapshot_retention", _parse_milliseconds),
    "history.expire.min-snapshots-to-keep": ("min_snapshots_to_keep", _min_parser(1, _parse_int)),
}


def select_policy_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the table properties that affect the table's policy."""
    return {
        key: value for key, value in properties.items() if key.startswith(PROPERTY_PREFIX) or key in _ICEBERG_PROPERTIES
    }


def _parse_properties(table: TableId, properties: Mapping[str, str]) -> dict[str, Any]:
    where = f"The properties of {table}"
    values = {
        name: _parse(parser, key, properties[key], where)
        for key, (name, parser) in _ICEBERG_PROPERTIES.items()
        if key in properties
    }
    own = {
        key.removeprefix(PROPERTY_PREFIX): value for key, value in properties.items() if key.startswith(PROPERTY_PREFIX)
    }
    return values | read_policy_values(own, f"{where} ({PROPERTY_PREFIX}*)")
