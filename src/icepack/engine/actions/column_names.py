"""Checks column names for Iceberg actions that pass them to Spark unquoted, such as z-order and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icepack.errors import InvalidOption


def check_unquoted_names(schema: Any, columns: Sequence[str], operation: str) -> None:
    """Rejects names that Spark would misread: a dot as a nested field, a backtick as a quote."""
    for column in columns:
        if not _is_safe_unquoted(schema, column):
            raise InvalidOption(f"Iceberg cannot {operation} '{column}': the name contains a dot or a backtick.")


def statistics_columns(schema: Any) -> tuple[str, ...] | None:
    """The columns that statistics can be computed for; None if these are all primitive columns."""
    primitive = [str(field.name()) for field in schema.columns() if field.type().isPrimitiveType()]
    supported = tuple(column for column in primitive if _is_safe_unquoted(schema, column))
    return None if len(supported) == len(primitive) else supported


def _is_safe_unquoted(schema: Any, column: str) -> bool:
    is_top_level = schema.asStruct().field(column) is not None
    return "`" not in column and not (is_top_level and "." in column)
