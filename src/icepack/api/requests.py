"""Translates request bodies into submissions: the table, the action and its parameters."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from icepack.api.dependencies import Caller
from icepack.api.schemas.jobs import ActionOptions, CompactRequest, JobOptions
from icepack.domain.access import Role
from icepack.domain.actions import ACTION_TYPES, ActionKind, Layout, Strategy
from icepack.domain.table import TableId, join_name, split_name
from icepack.domain.units import parse_duration, parse_size
from icepack.errors import InvalidOption
from icepack.service.submission import ActionRequest
from icepack.service.views.table_index import TableListing

# Options whose name differs from the action's parameter, because the parameter is in bytes or dollars.
_PARAMETER_NAMES = {"target_file_size": "target_file_bytes", "max_cost": "max_cost_dollars"}
# Options that bypass a safety check.
_ADMIN_OPTIONS = ("override_age_floor", "location")


def resolve_table(listing: TableListing, request: CompactRequest) -> TableId:
    """Finds the table by the request's catalog, namespace and name; the name itself may contain dots."""
    if request.catalog is not None and request.namespace is not None:
        exact = TableId(request.catalog, _split_namespace(request.namespace), request.table)
        if exact in listing.by_name:
            return exact
    parts = [part for part in (request.catalog and _quote(request.catalog), request.namespace) if part]
    if not parts:
        return listing.find(request.table)
    if request.catalog is not None and request.namespace is None:
        tables = tuple(summary for summary in listing.tables if summary.table.catalog == request.catalog)
        return TableListing(listing.generation, tables).find(request.table)
    return listing.find(".".join([*parts, _quote(request.table)]))


def _split_namespace(namespace: str) -> tuple[str, ...]:
    return tuple(part for part, _ in split_name(namespace))


def _quote(part: str) -> str:
    return join_name([part])


def parse_options(kind: ActionKind, options: ActionOptions) -> dict[str, Any]:
    """Returns the action's parameters; raises InvalidOption for options that the action does not have."""
    parameters = {
        _PARAMETER_NAMES.get(name, name): _parse_option(name, value)
        for name, value in options.model_dump(exclude_none=True).items()
    }
    unknown = sorted(set(parameters) - {field.name for field in fields(ACTION_TYPES[kind])})
    if unknown:
        option_names = {parameter: option for option, parameter in _PARAMETER_NAMES.items()}
        raise InvalidOption(f"{kind} has no option '{option_names.get(unknown[0], unknown[0])}'.")
    return parameters


def _parse_option(name: str, value: Any) -> Any:
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


def check_admin_options(caller: Caller, table: TableId, parameters: dict[str, Any]) -> None:
    """Raises Forbidden if an option bypasses a safety check and the caller is not an admin of the table."""
    if any(parameters.get(name) for name in _ADMIN_OPTIONS):
        caller.require_role(Role.ADMIN, table)


def build_action_request(
    caller: Caller,
    table: TableId,
    kind: ActionKind,
    parameters: dict[str, Any],
    request: JobOptions,
    idempotency_key: str | None,
) -> ActionRequest:
    body = request.model_dump(mode="json", exclude_unset=True)
    return ActionRequest(
        table=table,
        kind=kind,
        given=parameters,
        priority=request.priority,
        not_before=request.not_before,
        max_attempts=request.max_attempts,
        requester=caller.name,
        key=None if idempotency_key is None else scope_key(caller, idempotency_key) + "job",
        fingerprint=compute_fingerprint([str(table), kind.value, body]),
        trace_context=caller.trace_context,
    )


def scope_key(caller: Caller, idempotency_key: str) -> str:
    """Prefixes the idempotency key with the caller's name, so that callers do not share keys."""
    return f"api:{json.dumps([caller.name, idempotency_key])}:"


def compute_fingerprint(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
