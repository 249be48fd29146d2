"""Policy: what may be done to a table, and by which thresholds.

Layers, later wins: defaults < catalog < namespace glob < table glob < the table's own `icepack.*` properties.
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
    """The rules for one table, all layers merged."""

    enabled: bool = True
    actions: tuple[ActionKind, ...] = DEFAULT_ACTIONS
    strategy: Strategy | None = None
    """None lets icepack choose by what is wrong with the table."""
    layout: Layout = Layout.BINPACK
    columns: tuple[str, ...] = ()
    target_file_size: int = DEFAULT_TARGET_FILE_BYTES
    small_file_threshold: int = 32 * MIB
    max_files_per_partition: int = 1000
    min_input_files: int = 5
    fragment_ratio_threshold: float = 0.1
    engine: RewriteEngine = RewriteEngine.NATIVE
    proof: ProofLevel = ProofLevel.SAMPLED
    """How much of what a compaction rewrites is compared by value before it is committed."""
    partial_progress: bool = False
    partition_filter: str | None = None
    open_partition_grace: timedelta = timedelta(hours=1)
    snapshot_retention: timedelta = timedelta(days=7)
    min_snapshots_to_keep: int = 1
    orphan_retention: timedelta = timedelta(days=7)
    orphan_interval: timedelta = timedelta(days=7)
    max_orphan_files: int = 100_000
    max_orphan_share: float = 0.5
    repeat_after: timedelta = timedelta(hours=1)
    """How long an action that ran is not asked for again while the table has not changed much."""
    max_cost: float | None = None
    scans_per_day: float = 24.0
    """How often the table is read: what a file that is gone saves is weighed by it."""
    windows: tuple[Window, ...] = ()
    """When jobs may be handed out by themselves; empty is at any time."""
    daily_budget: float | None = None
    """Dollars a day, shared by all tables that have it from the same layer."""
    daily_compute: timedelta | None = None
    """Time of one core a day, shared likewise."""


def _flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false", "yes", "no", "on", "off", "1", "0"):
        raise ValueError(f"'{value}' is not true or false")
    return text in ("true", "yes", "on", "1")


def _names(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    return tuple(str(item).strip() for item in items if str(item).strip())


def _choice(kind: type[StrEnum]) -> Callable[[Any], Any]:
    def chosen(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"'{value}' is none of {', '.join(kind)}") from None

    return chosen


def _action_kinds(value: Any) -> tuple[ActionKind, ...]:
    named = {_choice(ActionKind)(name.replace("-", "_")) for name in _names(value)}
    return tuple(kind for kind in ActionKind if kind in named)


def _whole(value: Any) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"'{value}' is not a whole number") from None


def _number(value: Any) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"'{value}' is not a number")
    return number


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value in (None, "", "auto", "none") else read(value)


def _at_least(least: float, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        number = read(value)
        if number < least:
            raise ValueError(f"'{value}' is less than {least}")
        return number

    return checked


def _share(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise ValueError(f"'{value}' is not between 0 and 1")
    return number


_READERS: dict[str, Callable[[Any], Any]] = {
    "enabled": _flag,
    "actions": _action_kinds,
    "strategy": _optional(_choice(Strategy)),
    "layout": _choice(Layout),
    "columns": _names,
    "target_file_size": _at_least(1, parse_size),
    "small_file_threshold": parse_size,
    "max_files_per_partition": _at_least(1, _whole),
    "min_input_files": _at_least(1, _whole),
    "fragment_ratio_threshold": _at_least(0, _number),
    "engine": _choice(RewriteEngine),
    "proof": _choice(ProofLevel),
    "partial_progress": _flag,
    "partition_filter": _optional(str),
    "open_partition_grace": parse_duration,
    "snapshot_retention": parse_duration,
    "min_snapshots_to_keep": _at_least(1, _whole),
    "orphan_retention": parse_duration,
    "orphan_interval": parse_duration,
    "max_orphan_files": _at_least(0, _whole),
    "max_orphan_share": _share,
    "repeat_after": parse_duration,
    "max_cost": _optional(_at_least(0, _number)),
    "scans_per_day": _at_least(0, _number),
    "windows": parse_windows,
    "daily_budget": _optional(_at_least(0, _number)),
    "daily_compute": _optional(parse_duration),
}

POLICY_KEYS = tuple(field.name for field in fields(Policy))


def read_policy_values(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values as the policy's types; an unknown key or a bad value names `where` it stands."""
    read: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_").replace(".", "_")
        if name not in _READERS:
            raise ConfigError(f"{where}: '{key}' is no policy setting.", f"There are: {', '.join(POLICY_KEYS)}.")
        read[name] = _read(_READERS[name], key, value, where)
    return read


def _read(reader: Callable[[Any], Any], key: str, value: Any, where: str) -> Any:
    try:
        return reader(value)
    except (ValueError, TypeError) as exc:
        raise ConfigError(f"{where}: '{key}': {exc}.") from exc


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Settings for every table that the pattern matches."""

    pattern: TablePattern
    values: Mapping[str, Any]

    def rank(self, table: TableId) -> tuple[int, int, int, int]:
        """Catalog rules first, then namespace globs, then table globs; among equals the more literal one later.

        How deep a pattern reaches depends on the table: `sales.*` may mean a catalog or a namespace.
        """
        parts = self.pattern.parts
        literal = [quoted or not set("*?[") & set(part) for part, quoted in parts]
        depth = (self.pattern.left_out(table) or 0) + len(parts) - (parts[-1] == ("*", False))
        return (depth, literal[-1], sum(literal), len(self.pattern.text))


def resolve_policy(base: Policy, rules: Sequence[PolicyRule], table: TableId, properties: Mapping[str, str]) -> Policy:
    """The one policy that holds for `table`."""
    policy = base
    fitting = (rule for rule in rules if rule.pattern.matches(table))
    for rule in sorted(fitting, key=lambda rule: rule.rank(table)):
        policy = replace(policy, **rule.values)
    return replace(policy, **_from_properties(table, properties))


def _milliseconds(value: Any) -> timedelta:
    return from_milliseconds(_at_least(0, _whole)(value))


_ICEBERG_PROPERTIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "write.target-file-size-bytes": ("target_file_size", _at_least(1, _whole)),
    "history.expire.max-snapshot-age-ms": ("snapshot_retention", _milliseconds),
    "history.expire.min-snapshots-to-keep": ("min_snapshots_to_keep", _at_least(1, _whole)),
}


def own_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of a table's properties from which its policy follows."""
    return {
        key: value for key, value in properties.items() if key.startswith(PROPERTY_PREFIX) or key in _ICEBERG_PROPERTIES
    }


def _from_properties(table: TableId, properties: Mapping[str, str]) -> dict[str, Any]:
    where = f"The properties of {table}"
    values = {
        name: _read(reader, key, properties[key], where)
        for key, (name, reader) in _ICEBERG_PROPERTIES.items()
        if key in properties
    }
    own = {
        key.removeprefix(PROPERTY_PREFIX): value for key, value in properties.items() if key.startswith(PROPERTY_PREFIX)
    }
    return values | read_policy_values(own, f"{where} ({PROPERTY_PREFIX}*)")
