"""Flags of `icepack run`, turned into an action; a flag that the action does not have is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click

from icepack.domain.actions import (
    Action,
    ActionKind,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    Layout,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
    Strategy,
)
from icepack.domain.units import parse_duration, parse_size
from icepack.errors import InvalidOption

_ACTIONS: dict[ActionKind, type[Any]] = {
    ActionKind.COMPACT: Compact,
    ActionKind.REWRITE_POSITION_DELETES: RewritePositionDeletes,
    ActionKind.REWRITE_MANIFESTS: RewriteManifests,
    ActionKind.EXPIRE_SNAPSHOTS: ExpireSnapshots,
    ActionKind.REMOVE_ORPHAN_FILES: RemoveOrphanFiles,
    ActionKind.COMPUTE_STATS: ComputeStats,
}


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(value)
        except ValueError as exc:
            self.fail(f"{exc}.", param, ctx)


size = _Size()


def build_action(kind: ActionKind, flags: Mapping[str, Any], *, dry_run: bool = False) -> Action:
    """The action with the flags that were given; everything else is filled in by the policy."""
    given = {name: _read(name, value) for name, value in flags.items() if value not in (None, (), "")}
    if kind is ActionKind.COMPUTE_STATS and "snapshot_ids" in given:
        given["snapshot_id"] = given.pop("snapshot_ids")[0]
    if kind is ActionKind.REMOVE_ORPHAN_FILES and dry_run:
        given["dry_run"] = True
    known = {field.name for field in fields(_ACTIONS[kind])}
    strange = sorted(set(given) - known)
    if strange:
        raise InvalidOption(f"{kind} has no {_flag_name(strange[0])}.")
    action: Action = _ACTIONS[kind](**given)
    return action


def _read(name: str, value: Any) -> Any:
    match name:
        case "strategy":
            return Strategy(value)
        case "layout":
            return Layout(value)
        case "columns":
            return tuple(column.strip() for column in value.split(",") if column.strip())
        case "older_than":
            return _duration(value)
        case "options":
            return dict(_pair(text) for text in value)
        case _:
            return value


def _duration(text: str) -> Any:
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise InvalidOption(f"--older-than: {exc}.") from exc


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise InvalidOption(f"--option {text}: write it as KEY=VALUE.")
    return key.strip(), value.strip()


def _flag_name(field: str) -> str:
    spelled = {"partition_filter": "where", "target_file_bytes": "target-file-size", "max_cost_dollars": "max-cost"}
    return "--" + spelled.get(field, field.removesuffix("s") if field == "snapshot_ids" else field).replace("_", "-")
