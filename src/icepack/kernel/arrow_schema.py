"""Converts Iceberg schemas to Arrow schemas with field ids, as Iceberg's own Parquet writer lays them out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import time
from typing import Any
from uuid import UUID

import pyarrow as pa

FIELD_ID_KEY = b"PARQUET:field_id"
# Carries a field's initial default in memory. A file's footer does not contain it.
INITIAL_DEFAULT_KEY = b"icepack:initial-default"
ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER = 2147483540, 2147483539
# The row lineage columns, which carry a row's identity through a rewrite. Tables of format version 3 have them.
LINEAGE_FIELDS = (
    {"id": ROW_ID, "name": "_row_id", "required": False, "type": "long"},
    {
        "id": LAST_UPDATED_SEQUENCE_NUMBER,
        "name": "_last_updated_sequence_number",
        "required": False,
        "type": "long",
    },
)
LINEAGE_FIELD_IDS = frozenset({ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER})

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


class UnsupportedByKernel(Exception):
    """Raised for input that the kernel cannot rewrite exactly; Spark rewrites it instead.

    The message is a noun phrase that names what is not supported.
    """


def to_arrow_schema(schema: Mapping[str, Any], *, with_lineage: bool = False) -> pa.Schema:
    fields = [*schema["fields"], *(LINEAGE_FIELDS if with_lineage else ())]
    return pa.schema(
        [
            _to_arrow_field(field["name"], field["id"], field["type"], field["required"], field.get("initial-default"))
            for field in fields
        ]
    )


def is_supported_type(iceberg_type: Any) -> bool:
    """Whether a type of an Iceberg schema has an exact Arrow counterpart."""
    try:
        to_arrow_type(iceberg_type)
    except UnsupportedByKernel:
        return False
    return True


def to_arrow_type(iceberg_type: Any) -> pa.DataType:
    if isinstance(iceberg_type, str):
        return _to_arrow_primitive(iceberg_type)
    match iceberg_type["type"]:
        case "struct":
            return pa.struct(
                [
                    _to_arrow_field(
                        field["name"], field["id"], field["type"], field["required"], field.get("initial-default")
                    )
                    for field in iceberg_type["fields"]
                ]
            )
        case "list":
            element = iceberg_type["element"]
            required = iceberg_type["element-required"]
            return pa.list_(_to_arrow_field("element", iceberg_type["element-id"], element, required))
        case "map":
            key = _to_arrow_field("key", iceberg_type["key-id"], iceberg_type["key"], True)
            value, required = iceberg_type["value"], iceberg_type["value-required"]
            return pa.map_(key, _to_arrow_field("value", iceberg_type["value-id"], value, required))
        case other:
            raise UnsupportedByKernel(f"columns of type {other}")


def _to_arrow_primitive(iceberg_type: str) -> pa.DataType:
    if iceberg_type in _PRIMITIVES:
        return _PRIMITIVES[iceberg_type]
    if decimal := _DECIMAL.fullmatch(iceberg_type):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if fixed := _FIXED.fullmatch(iceberg_type):
        return pa.binary(int(fixed[1]))
    raise UnsupportedByKernel(f"columns of type {iceberg_type}")


def _to_arrow_field(name: str, field_id: int, iceberg_type: Any, required: bool, default: Any = None) -> pa.Field:
    metadata = {FIELD_ID_KEY: str(field_id)} | ({} if default is None else {INITIAL_DEFAULT_KEY: json.dumps(default)})
    return pa.field(sanitize_name(name), to_arrow_type(iceberg_type), nullable=not required, metadata=metadata)


def read_initial_default(field: pa.Field) -> pa.Scalar | None:
    """Returns the value of rows that were written before the column was added; None without a default."""
    text = (field.metadata or {}).get(INITIAL_DEFAULT_KEY)
    return None if text is None else parse_single_value(json.loads(text), field.type)


def parse_single_value(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """Parses a value in Iceberg's JSON single-value serialization. A UUID is returned as its bytes."""
    try:
        return _parse_single_value(value, data_type)
    except (ValueError, TypeError, NotImplementedError) as exc:
        raise UnsupportedByKernel(f"the value {value!r} of type {data_type}") from exc


def _parse_single_value(value: Any, data_type: pa.DataType) -> pa.Scalar:
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.scalar(UUID(value).bytes, data_type.storage_type)
    if pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type):
        return pa.scalar(bytes.fromhex(value), data_type)
    if pa.types.is_time(data_type):
        return pa.scalar(time.fromisoformat(value), data_type)
    if pa.types.is_floating(data_type):
        # Java writes NaN and the infinities as strings.
        return pa.scalar(float(value), data_type)
    return pa.scalar(value).cast(data_type) if isinstance(value, str) else pa.scalar(value, data_type)


def sanitize_name(name: str) -> str:
    """Returns the name that Iceberg's writers give a column in a file, with the characters that Avro allows."""
    if not name:
        return "_"
    head = name[0] if name[0].isalpha() or name[0] == "_" else _escape(name[0])
    return head + "".join(char if char.isalnum() or char == "_" else _escape(char) for char in name[1:])


def _escape(char: str) -> str:
    return f"_{char}" if char.isdigit() else f"_x{ord(char):X}"


def find_field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID_KEY)
    return None if text is None else int(text)


def get_field_id(field: pa.Field) -> int:
    """Returns the id of a field of the table, all of which have one."""
    field_id = find_field_id(field)
    assert field_id is not None
    return field_id


def get_child_fields(data_type: pa.DataType) -> list[pa.Field]:
    """Returns the fields of a struct, a list or a map; none for all other types."""
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    if is_list(data_type):
        return [data_type.value_field]
    if pa.types.is_struct(data_type):
        return [data_type.field(position) for position in range(data_type.num_fields)]
    return []


def replace_child_fields(data_type: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Returns the same kind of type with other fields inside."""
    if pa.types.is_map(data_type):
        return pa.map_(*fields)
    if is_list(data_type):
        return pa.list_(*fields)
    return pa.struct(fields) if pa.types.is_struct(data_type) else data_type


def list_leaf_types(data_type: pa.DataType) -> list[pa.DataType]:
    """Returns the types of the Parquet columns that store a field of this type."""
    if not is_nested(data_type):
        return [data_type]
    return [leaf for child in get_child_fields(data_type) for leaf in list_leaf_types(child.type)]


def list_leaf_paths(path: str, data_type: pa.DataType) -> list[str]:
    """Returns the paths of these columns in a Parquet file that PyArrow writes."""
    if not is_nested(data_type):
        return [path]
    names = ["key_value.key", "key_value.value"] if pa.types.is_map(data_type) else ["list.element"]
    names = [child.name for child in get_child_fields(data_type)] if pa.types.is_struct(data_type) else names
    children = zip(get_child_fields(data_type), names, strict=True)
    return [leaf for child, name in children for leaf in list_leaf_paths(f"{path}.{name}", child.type)]


def count_leaves(data_type: pa.DataType) -> int:
    """Returns how many Parquet columns store a field of this type."""
    return len(list_leaf_types(data_type))


def is_nested(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_struct(data_type) or pa.types.is_map(data_type) or is_list(data_type))


def is_string_or_binary(data_type: pa.DataType) -> bool:
    """Whether values have any length; Parquet dictionaries save most for these types."""
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))


def is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))
