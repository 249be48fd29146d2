"""Requests turned into orders: which table, which action, which parameters were given."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from icepack.api.dependencies import Caller
from icepack.api.schemas.jobs import ActionOptions, CompactRequest, Wishes
from icepack.domain.access import Role
from icepack.domain.actions import ACTION_TYPES, ActionKind, Layout, Strategy
from icepack.domain.table import TableId, join_name, split_name
from icepack.domain.units import parse_duration, parse_size
from icepack.errors import InvalidOption
from icepack.service.submission import Order
from icepack.service.views.table_index import Listing

_SPELLED = {"target_file_size": "target_file_bytes", "max_cost": "max_cost_dollars"}
_RISKY = ("override_age_floor", "location")
"""Ways around a guard rail: for admins."""


def meant(listing: Listing, asked: CompactRequest) -> TableId:
    """The table that the three names mean; a table's name may itself have dots in it."""
    if asked.catalog is not None and asked.namespace is not None:
        exact = TableId(asked.catalog, _levels(asked.namespace), asked.table)
        if exact in listing.by_name:
            return exact
    parts = [part for part in (asked.catalog and _quoted(asked.catalog), asked.namespace) if part]
    if not parts:
        return listing.find(asked.table)
    if asked.catalog is not None and asked.namespace is None:
        own = Listing(listing.generation, tuple(it for it in listing.tables if it.table.catalog == asked.catalog))
        return own.find(asked.table)
    return listing.find(".".join([*parts, _quoted(asked.table)]))


def _levels(namespace: str) -> tuple[str, ...]:
    return tuple(part for part, _ in split_name(namespace))


def _quoted(part: str) -> str:
    return join_name([part])


def given_options(kind: ActionKind, options: ActionOptions) -> dict[str, Any]:
    """The action's own parameters; what it does not have is refused."""
    given = {
        _SPELLED.get(name, name): _read(name, value) for name, value in options.model_dump(exclude_none=True).items()
    }
    strange = sorted(set(given) - {field.name for field in fields(ACTION_TYPES[kind])})
    if strange:
        unspelled = {value: name for name, value in _SPELLED.items()}
        raise InvalidOption(f"{kind} has no option '{unspelled.get(strange[0], strange[0])}'.")
    return given


def _read(name: str, value: Any) -> Any:
    match name:
        case "target_file_size":
            return parse_size(value)
        case "older_than":
            return parse_duration(value)
        case "strategy":
            return Strategy(value)
        case "layout":
            return Layout(value)
        case "columns" | "snapshot_ids":
            return tuple(value)
        case _:
            return value


def check_risks(caller: Caller, table: TableId, given: dict[str, Any]) -> None:
    if any(given.get(name) for name in _RISKY):
        caller.must(Role.ADMIN, table)


def order(caller: Caller, table: TableId, kind: ActionKind, given: dict[str, Any], wishes: Wishes, key: Any) -> Order:
    asked = wishes.model_dump(mode="json", exclude_unset=True)
    return Order(
        table=table,
        kind=kind,
        given=given,
        priority=wishes.priority,
        not_before=wishes.not_before,
        max_attempts=wishes.max_attempts,
        requester=caller.name,
        key=None if key is None else own_key(caller, key) + "job",
        fingerprint=fingerprint([str(table), kind.value, asked]),
        trace_context=caller.trace_context,
    )


def own_key(caller: Caller, key: str) -> str:
    """Everybody has keys of their own."""
    return f"api:{json.dumps([caller.name, key])}:"


def fingerprint(asked: Any) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
