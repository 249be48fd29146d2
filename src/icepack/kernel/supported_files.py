"""Lists what a Parquet file may contain for the kernel to rewrite it; Spark rewrites all other files.

The lists contain what PyArrow and Iceberg's own readers are known to read alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from icepack.kernel.arrow_schema import UnsupportedByKernel, count_leaves, find_field_id, get_child_fields
from icepack.kernel.parquet.file_schema import OPTIONAL, REPEATED, REQUIRED, FileSchema, SchemaNode

Json = Mapping[str, Any]

# LZ4 is missing because PyArrow has one name for two formats of it.
CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI"})
# Encodings of columns that PyArrow can read as dictionaries.
DICTIONARY_ENCODINGS = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
ENCODINGS = DICTIONARY_ENCODINGS | {
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
}
# Names of the repeated group and of the element in a list, as writers choose them.
LIST_NAMES = frozenset({("list", "element"), ("list", "item"), ("bag", "array_element")})
MAP_NAMES = ("key_value", "key", "value")

_INT = {("INT32", ""), ("INT32", "INT(8,signed)"), ("INT32", "INT(16,signed)"), ("INT32", "INT(32,signed)")}
# Physical types and annotations by Iceberg type.
_STORED_TYPES: dict[str, Collection[tuple[str, str]]] = {
    "boolean": {("BOOLEAN", "")},
    "int": _INT,
    "long": {*_INT, ("INT64", ""), ("INT64", "INT(64,signed)")},
    "float": {("FLOAT", "")},
    "double": {("FLOAT", ""), ("DOUBLE", "")},
    "date": {("INT32", "DATE")},
    "time": {("INT64", "TIME(MICROS,local)"), ("INT64", "TIME(MICROS,UTC)")},
    "timestamp": {("INT64", "TIMESTAMP(MICROS,local)")},
    "timestamptz": {("INT64", "TIMESTAMP(MICROS,UTC)")},
    "timestamp_ns": {("INT64", "TIMESTAMP(NANOS,local)")},
    "timestamptz_ns": {("INT64", "TIMESTAMP(NANOS,UTC)")},
    "string": {("BYTE_ARRAY", "STRING")},
    "binary": {("BYTE_ARRAY", "")},
    "uuid": {("FIXED_LEN_BYTE_ARRAY", "UUID")},
}
_ANY_STORED_TYPE = frozenset(pair for pairs in _STORED_TYPES.values() for pair in pairs) | {
    ("FIXED_LEN_BYTE_ARRAY", "")
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")
_MAX_DECIMAL_DIGITS = {"INT32": 9, "INT64": 18, "FIXED_LEN_BYTE_ARRAY": 38}
_MAX_DECIMAL_BYTES = 16


def check_columns(schema: FileSchema, file_fields: Sequence[pa.Field], table_fields: Sequence[Json]) -> None:
    """Raises UnsupportedByKernel unless all columns that are read are stored in a supported way.

    `file_fields` are the file's columns as PyArrow reads them, with their own field ids or those of the name mapping.
    """
    if len(schema.columns) != len(file_fields):
        raise UnsupportedByKernel("files for which PyArrow and the footer differ in the number of columns")
    by_id: dict[int | None, Json] = {column["id"]: column for column in table_fields}
    read_ids = [field_id for field in file_fields if (field_id := find_field_id(field)) in by_id]
    if len(set(read_ids)) < len(read_ids):
        raise UnsupportedByKernel("files with two columns of the same field id")
    for node, field in zip(schema.columns, file_fields, strict=True):
        column = by_id.get(find_field_id(field))
        if column is not None:
            _check_column(node, field, column["type"], node.name, is_by_name=not schema.has_field_ids)
        if node.leaf_count != count_leaves(field.type):
            raise UnsupportedByKernel(
                f"files for which PyArrow and the footer differ in the number of leaves of column {node.name}"
            )


def _check_column(node: SchemaNode, field: pa.Field, iceberg_type: Any, path: str, *, is_by_name: bool) -> None:
    """`iceberg_type` is the table's type; None for a column inside a struct that the table dropped."""
    if node.repetition == REPEATED:
        raise UnsupportedByKernel(f"column {path}: repeated outside a list or a map")
    if not node.is_group:
        _check_leaf(node, field, iceberg_type, path)
        return
    for child, child_field, child_type, name in _iter_children(node, field, iceberg_type, path, is_by_name=is_by_name):
        _check_column(child, child_field, child_type, f"{path}.{name}", is_by_name=is_by_name)


def _check_leaf(node: SchemaNode, field: pa.Field, iceberg_type: Any, path: str) -> None:
    if iceberg_type is None:
        is_supported = (node.physical_type, node.annotation) in _ANY_STORED_TYPE or _is_supported_decimal(node)
    else:
        is_supported = is_supported_leaf(node, iceberg_type)
    if not is_supported or get_child_fields(field.type):
        wanted = iceberg_type if isinstance(iceberg_type, str) else iceberg_type and iceberg_type["type"]
        name = "no such column" if wanted is None else wanted
        raise UnsupportedByKernel(f"column {path} stored as {node.type_text} in a table that has {name}")


def is_supported_leaf(node: SchemaNode, iceberg_type: Any) -> bool:
    """Whether values of an Iceberg type may be stored like this."""
    if not isinstance(iceberg_type, str):
        return False
    if decimal := _DECIMAL.fullmatch(iceberg_type):
        is_precise = node.precision <= int(decimal[1]) and node.scale == int(decimal[2])
        return _is_supported_decimal(node) and is_precise
    if fixed := _FIXED.fullmatch(iceberg_type):
        is_plain = (node.physical_type, node.annotation) == ("FIXED_LEN_BYTE_ARRAY", "")
        return is_plain and node.length == int(fixed[1])
    has_right_length = iceberg_type != "uuid" or node.length == 16
    return has_right_length and (node.physical_type, node.annotation) in _STORED_TYPES.get(iceberg_type, ())


def _is_supported_decimal(node: SchemaNode) -> bool:
    is_decimal = node.annotation.startswith("DECIMAL") and node.length <= _MAX_DECIMAL_BYTES
    return is_decimal and 0 < node.precision <= _MAX_DECIMAL_DIGITS.get(node.physical_type, 0)


def _iter_children(
    node: SchemaNode, field: pa.Field, iceberg_type: Any, path: str, *, is_by_name: bool
) -> Iterator[tuple[SchemaNode, pa.Field, Any, str]]:
    """Yields the columns inside a group, each with PyArrow's field, the table's type and its name."""
    stored = node.annotation or "struct"
    wanted = iceberg_type["type"] if isinstance(iceberg_type, Mapping) else iceberg_type
    if wanted is not None and stored.lower() != wanted:
        raise UnsupportedByKernel(f"column {path} stored as {node.type_text} in a table that has {wanted}")
    if stored == "LIST" and pa.types.is_list(field.type):
        element = _get_list_element(node, path)
        _check_child_ids(field.type, [] if iceberg_type is None else [iceberg_type["element-id"]], path)
        yield element, field.type.value_field, iceberg_type and iceberg_type["element"], "element"
    elif stored == "MAP" and pa.types.is_map(field.type):
        key, value = _get_map_entries(node, path)
        ids = [] if iceberg_type is None else [iceberg_type["key-id"], iceberg_type["value-id"]]
        _check_child_ids(field.type, ids, path)
        yield key, field.type.key_field, iceberg_type and iceberg_type["key"], "key"
        yield value, field.type.item_field, iceberg_type and iceberg_type["value"], "value"
    elif stored == "struct" and pa.types.is_struct(field.type):
        yield from _iter_struct_fields(node, field, iceberg_type, path, is_by_name=is_by_name)
    else:
        raise UnsupportedByKernel(f"column {path} stored as {node.type_text}, which PyArrow reads as {field.type}")


def _check_child_ids(data_type: pa.DataType, wanted: Sequence[int], path: str) -> None:
    """Iceberg's readers find elements, keys and values by their field ids and not by their position."""
    if wanted and [find_field_id(child) for child in get_child_fields(data_type)] != list(wanted):
        raise UnsupportedByKernel(f"column {path}: elements, keys or values with other field ids than the table's")


def _get_list_element(node: SchemaNode, path: str) -> SchemaNode:
    """Returns the element of a list in the three-level structure with the names that writers give it."""
    (middle,) = node.children if len(node.children) == 1 else (None,)
    if middle is None or middle.repetition != REPEATED or middle.annotation or len(middle.children) != 1:
        raise UnsupportedByKernel(f"column {path}: a list without the standard three-level structure")
    (element,) = middle.children
    if (middle.name, element.name) not in LIST_NAMES:
        raise UnsupportedByKernel(f"column {path}: a list with the levels {middle.name}.{element.name}")
    return element


def _get_map_entries(node: SchemaNode, path: str) -> tuple[SchemaNode, SchemaNode]:
    (middle,) = node.children if len(node.children) == 1 else (None,)
    if middle is None or middle.repetition != REPEATED or middle.annotation or len(middle.children) != 2:
        raise UnsupportedByKernel(f"column {path}: a map without the standard structure")
    key, value = middle.children
    if (middle.name, key.name, value.name) != MAP_NAMES or key.repetition != REQUIRED:
        raise UnsupportedByKernel(f"column {path}: a map without the standard structure")
    return key, value


def _iter_struct_fields(
    node: SchemaNode, field: pa.Field, iceberg_type: Any, path: str, *, is_by_name: bool
) -> Iterator[tuple[SchemaNode, pa.Field, Any, str]]:
    children = get_child_fields(field.type)
    if [child.name for child in node.children] != [child.name for child in children]:
        raise UnsupportedByKernel(f"column {path}: a struct for which PyArrow and the footer differ in the fields")
    field_ids = [field_id for child in children if (field_id := find_field_id(child)) is not None]
    if len(set(field_ids)) < len(field_ids):
        raise UnsupportedByKernel(f"column {path}: two fields of the same id")
    if len(field_ids) < len(children) and not is_by_name:
        raise UnsupportedByKernel(f"column {path}: fields without an id beside others that have one")
    types: dict[int | None, Any] = (
        {} if iceberg_type is None else {part["id"]: part["type"] for part in iceberg_type["fields"]}
    )
    for child_node, child in zip(node.children, children, strict=True):
        yield child_node, child, types.get(find_field_id(child)), child_node.name


def check_position_deletes(schema: FileSchema, path: str, position: str) -> None:
    """Raises UnsupportedByKernel unless both columns of a position delete file are stored as the spec says."""
    for name, iceberg_type in ((path, "string"), (position, "long")):
        nodes = [node for node in schema.columns if node.name == name]
        if (
            len(nodes) != 1
            or nodes[0].repetition not in (REQUIRED, OPTIONAL)
            or not is_supported_leaf(nodes[0], iceberg_type)
        ):
            raise UnsupportedByKernel(f"position deletes without a column {name} of type {iceberg_type}")
