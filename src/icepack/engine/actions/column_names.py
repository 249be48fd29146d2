"""Column names for those of Iceberg's actions that hand them to Spark unquoted, as z-order and statistics do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icepack.errors import InvalidOption


def check_sayable(schema: Any, columns: Sequence[str], what: str) -> None:
    """Spark would take a dot for a nested field and stumble over a backtick; better in words than in a trace."""
    for column in columns:
        if not _is_sayable(schema, column):
            raise InvalidOption(f"Iceberg cannot {what} '{column}': its name has a dot or a backtick.")


def sayable_statistics_columns(schema: Any) -> tuple[str, ...] | None:
    """The columns that statistics can be had of; None means all, which needs no saying."""
    primitive = [str(field.name()) for field in schema.columns() if field.type().isPrimitiveType()]
    chosen = tuple(column for column in primitive if _is_sayable(schema, column))
    return None if len(chosen) == len(primitive) else chosen


def _is_sayable(schema: Any, column: str) -> bool:
    is_top_level = schema.asStruct().field(column) is not None
    return "`" not in column and not (is_top_level and "." in column)
