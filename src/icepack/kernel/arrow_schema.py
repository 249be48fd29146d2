"""An Iceberg schema as Arrow's, with field ids, as Iceberg's own Parquet writer would lay it out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import time
from typing import Any
from uuid import UUID

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"
DEFAULT = b"icepack:initial-default"
"""Travels with the field in memory; a file's footer does not show it."""
ROW_ID, LAST_UPDATED = 2147483540, 2147483539
LINEAGE = (
    {"id": ROW_ID, "name": "_row_id", "required": False, "type": "long"},
    {"id": LAST_UPDATED, "name": "_last_updated_sequence_number", "required": False, "type": "long"},
)
"""The columns that carry a row's identity through a rewrite; tables of format version 3 have it."""
LINEAGE_IDS = frozenset({ROW_ID, LAST_UPDATED})

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")


class Uncovered(Exception):
    """Something that this kernel does not do exactly, and therefore does not do."""


def arrow_schema(schema: Mapping[str, Any], *, with_lineage: bool = False) -> pa.Schema:
    fields = [*schema["fields"], *(LINEAGE if with_lineage else ())]
    return pa.schema(
        [
            _field(field["name"], field["id"], field["type"], field["required"], field.get("initial-default"))
            for field in fields
        ]
    )


def is_covered(kind: Any) -> bool:
    """Whether a type of an Iceberg schema has an exact counterpart here."""
    try:
        arrow_type(kind)
    except Uncovered:
        return False
    return True


def arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        return _primitive(kind)
    match kind["type"]:
        case "struct":
            return pa.struct(
                [
                    _field(part["name"], part["id"], part["type"], part["required"], part.get("initial-default"))
                    for part in kind["fields"]
                ]
            )
        case "list":
            return pa.list_(_field("element", kind["element-id"], kind["element"], kind["element-required"]))
        case "map":
            key = _field("key", kind["key-id"], kind["key"], True)
            return pa.map_(key, _field("value", kind["value-id"], kind["value"], kind["value-required"]))
        case other:
            raise Uncovered(f"columns of type {other}")


def _primitive(kind: str) -> pa.DataType:
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if fixed := _FIXED.fullmatch(kind):
        return pa.binary(int(fixed[1]))
    raise Uncovered(f"columns of type {kind}")


def _field(name: str, number: int, kind: Any, required: bool, default: Any = None) -> pa.Field:
    metadata = {FIELD_ID: str(number)} | ({} if default is None else {DEFAULT: json.dumps(default)})
    return pa.field(file_name(name), arrow_type(kind), nullable=not required, metadata=metadata)


def default_of(field: pa.Field) -> pa.Scalar | None:
    """What rows have that were written before the column was added."""
    text = (field.metadata or {}).get(DEFAULT)
    return None if text is None else single_value(json.loads(text), field.type)


def single_value(said: Any, kind: pa.DataType) -> pa.Scalar:
    """A value in the JSON that Iceberg has for single values; a UUID as its bytes."""
    try:
        return _single_value(said, kind)
    except (ValueError, TypeError, NotImplementedError) as exc:
        raise Uncovered(f"the value {said!r} of type {kind}") from exc


def _single_value(said: Any, kind: pa.DataType) -> pa.Scalar:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.scalar(UUID(said).bytes, kind.storage_type)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.scalar(bytes.fromhex(said), kind)
    if pa.types.is_time(kind):
        return pa.scalar(time.fromisoformat(said), kind)
    if pa.types.is_floating(kind):
        # Java spells what is no number as a string.
        return pa.scalar(float(said), kind)
    return pa.scalar(said).cast(kind) if isinstance(said, str) else pa.scalar(said, kind)


def file_name(name: str) -> str:
    """Iceberg writes names that Avro allows, whatever the column is called."""
    if not name:
        return "_"
    head = name[0] if name[0].isalpha() or name[0] == "_" else _spelled(name[0])
    return head + "".join(char if char.isalnum() or char == "_" else _spelled(char) for char in name[1:])


def _spelled(char: str) -> str:
    return f"_{char}" if char.isdigit() else f"_x{ord(char):X}"


def field_id(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def number_of(field: pa.Field) -> int:
    """The id of a field of the table, all of which have one."""
    number = field_id(field)
    assert number is not None
    return number


def children(kind: pa.DataType) -> list[pa.Field]:
    """The fields inside a struct, a list or a map; none for all other types."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if is_list(kind):
        return [kind.value_field]
    if pa.types.is_struct(kind):
        return [kind.field(position) for position in range(kind.num_fields)]
    return []


def with_children(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """The same kind of type with other fields inside."""
    if pa.types.is_map(kind):
        return pa.map_(*fields)
    if is_list(kind):
        return pa.list_(*fields)
    return pa.struct(fields) if pa.types.is_struct(kind) else kind


def leaf_types(kind: pa.DataType) -> list[pa.DataType]:
    """Those of the Parquet columns that a field of this type takes."""
    if not is_nested(kind):
        return [kind]
    return [leaf for child in children(kind) for leaf in leaf_types(child.type)]


def leaf_paths(path: str, kind: pa.DataType) -> list[str]:
    """Their names in a Parquet file that PyArrow writes."""
    if not is_nested(kind):
        return [path]
    names = ["key_value.key", "key_value.value"] if pa.types.is_map(kind) else ["list.element"]
    names = [child.name for child in children(kind)] if pa.types.is_struct(kind) else names
    inside = zip(children(kind), names, strict=True)
    return [leaf for child, name in inside for leaf in leaf_paths(f"{path}.{name}", child.type)]


def leaves(kind: pa.DataType) -> int:
    """How many Parquet columns a field of this type takes."""
    return len(leaf_types(kind))


def is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind) or is_list(kind))


def is_text(kind: pa.DataType) -> bool:
    """Or bytes of any length: what Parquet's dictionaries pay for most."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
