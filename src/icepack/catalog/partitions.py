"""Formats partition tuples as names and as filter values, and computes the period that a partition covers."""

from __future__ import annotations

import calendar
import math
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from icepack.catalog.manifests import decode_partition
from icepack.domain.plan.files import PartitionKey, PartitionValue

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PartitionNames:
    """Formats the partitions of one table, using its current schema and all of its partition specs."""

    def __init__(self, table: Table) -> None:
        self._schema = table.schema()
        self._specs = table.specs()

    def key(self, spec_id: int, encoded: str) -> PartitionKey:
        values = decode_partition(encoded)
        spec = self._specs.get(spec_id)
        if spec is None:
            return PartitionKey(spec_id, encoded if values else "")
        pairs = zip(spec.fields, values, strict=False)
        return PartitionKey(spec_id, "/".join(self._format_field(field, value) for field, value in pairs))

    def values(self, spec_id: int, encoded: str) -> tuple[PartitionValue, ...]:
        """Empty if the partition cannot be selected: its spec or a source column no longer exists, or JSON does not
        support a value.
        """
        spec = self._specs.get(spec_id)
        if spec is None or any(self._source(field) is None for field in spec.fields):
            return ()
        pairs = list(zip(spec.fields, decode_partition(encoded), strict=False))
        if any(_is_unsupported_in_json(value) for _, value in pairs):
            return ()
        return tuple(self._partition_value(field, value) for field, value in pairs if not _is_void(field))

    def ends_at(self, spec_id: int, encoded: str) -> datetime | None:
        """The end of the period of the first time-based field; None if there is none, or if its value is null."""
        spec = self._specs.get(spec_id)
        if spec is None:
            return None
        for field, value in zip(spec.fields, decode_partition(encoded), strict=False):
            end = _period_end(field, value, _source_type(self._schema, field))
            if end is not None:
                return end
        return None

    def format_spec(self, spec: PartitionSpec) -> str:
        return ", ".join(f"{field.transform}({self._source(field) or field.source_id})" for field in spec.fields)

    def _source(self, field: PartitionField) -> str | None:
        return self._schema.find_column_name(field.source_id)

    def _format_field(self, field: PartitionField, value: Any) -> str:
        text = _format_value(field, value, _source_type(self._schema, field))
        escaped = quote_plus(text, safe=" :")
        # Escaped, because Iceberg's partition paths do not distinguish the text 'null' from a null value.
        return f"{quote_plus(field.name, safe='')}={'%6Eull' if text == 'null' and value is not None else escaped}"

    def _partition_value(self, field: PartitionField, value: Any) -> PartitionValue:
        if _is_identity(field) and isinstance(value, int):
            # As text, because Iceberg reads a small number as an int, and a large one as microseconds even if the
            # column has nanoseconds.
            value = format_time(value, str(_source_type(self._schema, field))) or value
        json_value = value if isinstance(value, str | int | float | bool) or value is None else str(value)
        return PartitionValue(str(self._source(field)), str(field.transform), json_value)


def _format_value(field: PartitionField, value: Any, source_type: Any) -> str:
    """Formats a value as Iceberg does, or as a plain number if it is a time that Python cannot represent."""
    if value is None or source_type is None:
        return "null" if value is None else str(value)
    if _is_identity(field) and str(source_type).endswith("_ns"):
        return format_time(value, str(source_type)) or str(value)
    try:
        return field.transform.to_human_string(field.transform.result_type(source_type), value)
    except (OverflowError, ValueError):
        return str(value)


def format_time(value: int, source_type: str) -> str | None:
    """Formats a time or timestamp as ISO 8601; None for other types and for years that Python does not support."""
    per_second = 1_000_000_000 if source_type.endswith("_ns") else 1_000_000
    if source_type != "time" and not source_type.startswith("timestamp"):
        return None
    seconds, fraction = divmod(value, per_second)
    moment = _after_epoch(timedelta(seconds=seconds))
    if moment is None:
        return None
    text = moment.strftime("%H:%M:%S") if source_type == "time" else moment.replace(tzinfo=None).isoformat()
    digits = f".{fraction:0{len(str(per_second)) - 1}d}" if fraction else ""
    return f"{text}{digits}{'+00:00' if source_type.startswith('timestamptz') else ''}"


def _is_identity(field: PartitionField) -> bool:
    return str(field.transform) == "identity"


def _is_unsupported_in_json(value: Any) -> bool:
    return isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value))


def _is_void(field: PartitionField) -> bool:
    return str(field.transform) == "void"


def _source_type(schema: Schema, field: PartitionField) -> Any:
    if schema.find_column_name(field.source_id) is None:
        return None
    return schema.find_type(field.source_id)


def _period_end(field: PartitionField, value: Any, source_type: Any) -> datetime | None:
    if value is None:
        return None
    match str(field.transform):
        case "year":
            return datetime(1970 + value + 1, 1, 1, tzinfo=UTC) if 1 <= 1971 + value <= 9999 else None
        case "month":
            return _month_end(value)
        case "day":
            return _after_epoch(timedelta(days=_days_since_epoch(value) + 1))
        case "hour":
            return _after_epoch(timedelta(hours=value + 1))
        case "identity" if str(source_type) == "date":
            return _after_epoch(timedelta(days=_days_since_epoch(value) + 1))
        case _:
            return None


def _days_since_epoch(value: Any) -> int:
    return value.toordinal() - date(1970, 1, 1).toordinal() if isinstance(value, date) else int(value)


def _month_end(months: int) -> datetime | None:
    year, month = divmod(months, 12)
    if not 1 <= year + 1970 < 9999:
        return None
    first = datetime(year + 1970, month + 1, 1, tzinfo=UTC)
    return first + timedelta(days=calendar.monthrange(first.year, first.month)[1])


def _after_epoch(offset: timedelta) -> datetime | None:
    try:
        return _EPOCH + offset
    except OverflowError:
        return None
