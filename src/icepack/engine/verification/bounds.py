"""Bounds of a manifest entry as Spark literals, so that rows outside of them can be counted."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from icepack.domain.verification import ColumnDifference
from icepack.engine.verification.digest import WHOLE_ROWS
from icepack.engine.verification.expressions import Leaf

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """What a manifest says, or will say, of a data file."""

    record_count: int
    null_value_counts: Mapping[int, int] = field(default_factory=dict)
    nan_value_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)


def rows_outside(leaf: Leaf, metrics: FileMetrics) -> str | None:
    """A condition that holds for rows that a reader would lose by these bounds; None where there are no bounds."""
    lower = _literal(leaf.type, metrics.lower_bounds.get(leaf.id))
    upper = _literal(leaf.type, metrics.upper_bounds.get(leaf.id))
    tests = [f"{leaf.sql} < {lower}"] if lower else []
    tests += [f"{leaf.sql} > {upper}"] if upper else []
    if not tests:
        return None
    return f"({' OR '.join(tests)})" + (f" AND NOT isnan({leaf.sql})" if leaf.is_floating else "")


def wrong_metrics(
    metrics: FileMetrics,
    path: str,
    *,
    rows: int,
    nulls: Mapping[Leaf, int],
    nans: Mapping[Leaf, int],
    outside: Mapping[Leaf, int],
) -> list[ColumnDifference]:
    """Where a manifest entry disagrees with what was counted in the file's rows."""
    claims = [(WHOLE_ROWS, "record_count", metrics.record_count, rows)]
    claims += [
        (leaf.name, measure, claimed[leaf.id], found)
        for measure, claimed, counted in (
            ("null_value_count", metrics.null_value_counts, nulls),
            ("nan_value_count", metrics.nan_value_counts, nans),
        )
        for leaf, found in counted.items()
        if leaf.id in claimed
    ]
    claims += [(leaf.name, "rows_outside_bounds", 0, found) for leaf, found in outside.items()]
    return [
        ColumnDifference(column=name, measure=measure, before=f"{found}", after=f"{claimed}", file=path)
        for name, measure, claimed, found in claims
        if claimed != found
    ]


def _literal(kind: str, raw: bytes | None) -> str | None:
    if raw is None:
        return None
    match kind:
        case "boolean":
            return "true" if raw != b"\0" else "false"
        case "int":
            return f"cast('{_integer(raw)}' AS INT)"
        case "long":
            return f"cast('{_integer(raw)}' AS BIGINT)"
        case "float" | "double":
            (value,) = struct.unpack("<f" if len(raw) == 4 else "<d", raw)
            return f"cast('{value!r}' AS {kind.upper()})"
        case "date":
            return f"date_from_unix_date({_integer(raw)})"
        case "timestamptz":
            return f"timestamp_micros({_integer(raw)})"
        case "timestamp":
            return f"cast(timestamp_micros({_integer(raw)}) AS TIMESTAMP_NTZ)"
        case "uuid":
            return f"'{UUID(bytes=raw)}'"
        case "string":
            return f"decode(X'{raw.hex()}', 'UTF-8')"
        case "binary":
            return f"X'{raw.hex()}'"
        case _:
            return _parametrised(kind, raw)


def _parametrised(kind: str, raw: bytes) -> str | None:
    if kind.startswith("fixed["):
        return f"X'{raw.hex()}'"
    if decimal := _DECIMAL.fullmatch(kind):
        unscaled, scale = int.from_bytes(raw, "big", signed=True), int(decimal[2])
        return f"cast('{unscaled}E-{scale}' AS DECIMAL({decimal[1]},{scale}))"
    return None


def _integer(raw: bytes) -> int:
    """An int's bounds may have been written before the column became a long."""
    return int.from_bytes(raw, "little", signed=True)


def metrics_from_json(said: Mapping[str, Any]) -> FileMetrics:
    from base64 import b64decode

    def counts(name: str) -> dict[int, int]:
        return {int(number): int(count) for number, count in said[name].items()}

    def bounds(name: str) -> dict[int, bytes]:
        return {int(number): b64decode(text) for number, text in said[name].items()}

    return FileMetrics(
        record_count=int(said["record_count"]),
        null_value_counts=counts("null_value_counts"),
        nan_value_counts=counts("nan_value_counts"),
        lower_bounds=bounds("lower_bounds"),
        upper_bounds=bounds("upper_bounds"),
    )
