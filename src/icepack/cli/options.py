"""Flags of `icepack run`, turned into an action; a flag that the action does not have is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click

from icepack.domain.actions import ACTION_TYPES, ActionKind, Layout, RewriteEngine, Strategy
from icepack.domain.units import parse_duration, parse_size
from icepack.domain.verification import ProofLevel
from icepack.errors import InvalidOption


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(value)
        except ValueError as exc:
            self.fail(f"{exc}.", param, ctx)


class _StrategyName(click.ParamType[Strategy]):
    name = "strategy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Strategy:
        try:
            return Strategy(value)
        except ValueError:
            self.fail(f"'{value}' is none of {', '.join(Strategy)}.", param, ctx)


size = _Size()
strategy_type = _StrategyName()
proof_option = click.option(
    "--proof",
    type=click.Choice([level.value for level in ProofLevel]),
    help="count: row counts only; sampled: values of new classes of files and of a sample; full: values of all groups.",
)


def given_parameters(kind: ActionKind, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The action's parameters that were given; what was not is filled in by the policy."""
    given = {name: _read(name, value) for name, value in flags.items() if value not in (None, (), "")}
    if kind is ActionKind.COMPUTE_STATS and "snapshot_ids" in given:
        given["snapshot_id"] = given.pop("snapshot_ids")[0]
    strange = sorted(set(given) - {field.name for field in fields(ACTION_TYPES[kind])})
    if strange:
        raise InvalidOption(f"{kind} has no {_flag_name(strange[0])}.")
    return given


def _read(name: str, value: Any) -> Any:
    match name:
        case "layout":
            return Layout(value)
        case "engine":
            return RewriteEngine(value)
        case "proof":
            return ProofLevel(value)
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
