"""Parses the flags of `icepack run` into the parameters of an action; rejects flags that the action does not have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

import click

from icepack.domain.actions import ACTION_TYPES, ActionKind, Layout, RewriteEngine, Strategy
from icepack.domain.units import parse_duration, parse_size
from icepack.domain.verification import ProofLevel
from icepack.errors import InvalidOption


class _SizeType(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_size(value)
        except ValueError as exc:
            self.fail(f"{exc}.", param, ctx)


class _StrategyType(click.ParamType[Strategy]):
    name = "strategy"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Strategy:
        try:
            return Strategy(value)
        except ValueError:
            self.fail(f"'{value}' is not one of {', '.join(Strategy)}.", param, ctx)


size_type = _SizeType()
strategy_type = _StrategyType()
proof_option = click.option(
    "--proof",
    type=click.Choice([level.value for level in ProofLevel]),
    help="How the result is verified. count: row counts only; sampled: also the values of new classes of files and of "
    "a sample; full: the values of all groups.",
)


def parse_parameters(kind: ActionKind, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that were given; the policy supplies the others."""
    given = {name: _parse_flag(name, value) for name, value in flags.items() if value not in (None, (), "")}
    if kind is ActionKind.COMPUTE_STATS and "snapshot_ids" in given:
        given["snapshot_id"] = given.pop("snapshot_ids")[0]
    unknown = sorted(set(given) - {field.name for field in fields(ACTION_TYPES[kind])})
    if unknown:
        raise InvalidOption(f"{kind} has no {_flag_name(unknown[0])}.")
    return given


def _parse_flag(name: str, value: Any) -> Any:
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
            return _parse_older_than(value)
        case "options":
            return dict(_parse_option(text) for text in value)
        case _:
            return value


def _parse_older_than(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise InvalidOption(f"--older-than: {exc}.") from exc


def _parse_option(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise InvalidOption(f"--option {text}: expected KEY=VALUE.")
    return key.strip(), value.strip()


def _flag_name(field: str) -> str:
    flags = {"partition_filter": "where", "target_file_bytes": "target-file-size", "max_cost_dollars": "max-cost"}
    return "--" + flags.get(field, field.removesuffix("s") if field == "snapshot_ids" else field).replace("_", "-")
