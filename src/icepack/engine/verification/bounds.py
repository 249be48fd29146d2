"""Compares the metrics of a manifest entry with the rows of its file."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from icepack.domain.verification import ColumnDifference
from icepack.engine.verification.digest import WHOLE_ROWS
from icepack.engine.verification.expressions import LeafColumn

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """The metrics of a data file in its manifest entry."""

    record_count: int
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


def build_outside_condition(leaf: LeafColumn, metrics: FileMetrics) -> str | None:
    """SQL condition for rows that readers would skip because of these bounds; None if there are no bounds."""
    lower = _sql_literal(leaf.type, metrics.lower_bounds.get(leaf.id))
    upper = _sql_literal(leaf.type, metrics.upper_bounds.get(leaf.id))
    conditions = [f"{leaf.sql} < {lower}"] if lower else []
    conditions += [f"{leaf.sql} > {upper}"] if upper else []
    if not conditions:
        return None
    return f"({' OR '.join(conditions)})" + (f" AND NOT isnan({leaf.sql})" if leaf.is_floating else "")


def find_wrong_metrics(
    metrics: FileMetrics,
    path: str,
    *,
    rows: int,
    nulls: Mapping[LeafColumn, int],
    nans: Mapping[LeafColumn, int],
    outside: Mapping[LeafColumn, int],
) -> list[ColumnDifference]:
    """Returns the metrics of a manifest entry that differ from the rows of the file."""
    metric_values = [(WHOLE_ROWS, "record_count", metrics.record_count, rows)]
    metric_values += [
        (leaf.name, measure, recorded[leaf.id], found)
        for measure, recorded, counted in (
            ("null_value_count", metrics.null_value_counts, nulls),
            ("nan_value_count", metrics.nan_value_counts, nans),
        )
        for leaf, found in counted.items()
        if leaf.id in recorded
    ]
    metric_values += [(leaf.name, "rows_outside_bounds", 0, found) for leaf, found in outside.items()]
    return [
        ColumnDifference(column=name, measure=measure, before=f"{found}", after=f"{recorded}", file=path)
        for name, measure, recorded, found in metric_values
        if recorded != found
    ]


def _sql_literal(kind: str, raw: bytes | None) -> str | None:
    if raw is None:
        return None
    match kind:
        case "boolean":
            return "true" if raw != b"\0" else "false"
        case "int":
            return f"cast('{_to_int(raw)}' AS INT)"
        case "long":
            return f"cast('{_to_int(raw)}' AS BIGINT)"
        case "float" | "double":
            (value,) = struct.unpack("<f" if len(raw) == 4 else "<d", raw)
            return f"cast('{value!r}' AS {kind.upper()})"
        case "date":
            return f"date_from_unix_date({_to_int(raw)})"
        case "timestamptz":
            return f"timestamp_micros({_to_int(raw)})"
        case "timestamp":
            return f"cast(timestamp_micros({_to_int(raw)}) AS TIMESTAMP_NTZ)"
        case "uuid":
            return f"'{UUID(bytes=raw)}'"
        case "string":
            return f"decode(X'{raw.hex()}', 'UTF-8')"
        case "binary":
            return f"X'{raw.hex()}'"
        case _:
            return _parametrized_literal(kind, raw)


def _parametrized_literal(kind: str, raw: bytes) -> str | None:
    if kind.startswith("fixed["):
        return f"X'{raw.hex()}'"
    if decimal := _DECIMAL.fullmatch(kind):
        unscaled, scale = int.from_bytes(raw, "big", signed=True), int(decimal[2])
        return f"cast('{unscaled}E-{scale}' AS DECIMAL({decimal[1]},{scale}))"
    return None


def _to_int(raw: bytes) -> int:
    """The bounds of a long column may have the length of an int, if they were written before it was promoted."""
    return int.from_bytes(raw, "little", signed=True)


def parse_metrics(metrics: Mapping[str, Any]) -> FileMetrics:
    from base64 import b64decode

    def counts(name: str) -> dict[int, int]:
        return {int(field_id): int(count) for field_id, count in metrics[name].items()}

    def bounds(name: str) -> dict[int, bytes]:
        return {int(field_id): b64decode(text) for field_id, text in metrics[name].items()}

    return FileMetrics(
        record_count=int(metrics["record_count"]),
        null_value_counts=counts("null_value_counts"),
        nan_value_counts=counts("nan_value_counts"),
        lower_bounds=bounds("lower_bounds"),
        upper_bounds=bounds("upper_bounds"),
    )
