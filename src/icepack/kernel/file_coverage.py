"""What a Parquet file may hold for the kernel to rewrite it. The lists say what is allowed; all else goes to Spark.

On the lists is what PyArrow and Iceberg's own readers are known to read alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from icepack.kernel.arrow_schema import Uncovered, children, field_id, leaves
from icepack.kernel.parquet.file_schema import OPTIONAL, REPEATED, REQUIRED, FileSchema, Node

Json = Mapping[str, Any]

CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI"})
"""Not LZ4: PyArrow has one name for two formats of it."""
DICTIONARY_ENCODINGS = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
"""Of columns that PyArrow can read as dictionaries."""
ENCODINGS = DICTIONARY_ENCODINGS | {
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
}
LIST_NAMES = frozenset({("list", "element"), ("list", "item"), ("bag", "array_element")})
MAP_NAMES = ("key_value", "key", "value")

_INT = {("INT32", ""), ("INT32", "INT(8,signed)"), ("INT32", "INT(16,signed)"), ("INT32", "INT(32,signed)")}
_ALLOWED: dict[str, Collection[tuple[str, str]]] = {
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
"""Iceberg type → physical types and annotations."""
_ANY = frozenset(pair for pairs in _ALLOWED.values() for pair in pairs) | {("FIXED_LEN_BYTE_ARRAY", "")}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")
_DECIMAL_DIGITS = {"INT32": 9, "INT64": 18, "FIXED_LEN_BYTE_ARRAY": 38}
_DECIMAL_BYTES = 16


def check_columns(schema: FileSchema, found: Sequence[pa.Field], wanted: Sequence[Json]) -> None:
    """Refuses a file unless all its columns that the table wants are stored in a form that is on the list.

    `found` are the file's columns as PyArrow reads them, with the ids that they have or get by their names.
    """
    if len(schema.columns) != len(found):
        raise Uncovered("files whose columns PyArrow counts otherwise than their footer")
    by_id: dict[int | None, Json] = {column["id"]: column for column in wanted}
    taken = [number for field in found if (number := field_id(field)) in by_id]
    if len(set(taken)) < len(taken):
        raise Uncovered("files with two columns of the same field id")
    for node, field in zip(schema.columns, found, strict=True):
        column = by_id.get(field_id(field))
        if column is not None:
            _check(node, field, column["type"], node.name, is_by_name=not schema.has_ids)
        if node.leaves != leaves(field.type):
            raise Uncovered(f"files whose column {node.name} PyArrow counts otherwise than their footer")


def _check(node: Node, field: pa.Field, kind: Any, path: str, *, is_by_name: bool) -> None:
    """`kind` is the table's type; None for a column inside a struct that the table has no more."""
    if node.repetition == REPEATED:
        raise Uncovered(f"column {path}: repeated outside a list or a map")
    if not node.is_group:
        _check_leaf(node, field, kind, path)
        return
    for inside, child, child_kind, name in _inside(node, field, kind, path, is_by_name=is_by_name):
        _check(inside, child, child_kind, f"{path}.{name}", is_by_name=is_by_name)


def _check_leaf(node: Node, field: pa.Field, kind: Any, path: str) -> None:
    pair = (node.physical, node.annotation)
    is_allowed = (pair in _ANY or _is_decimal(node)) if kind is None else is_allowed_leaf(node, kind)
    if not is_allowed or children(field.type):
        name = "no such column" if kind is None else kind if isinstance(kind, str) else kind["type"]
        raise Uncovered(f"column {path} stored as {node.stored} in a table that has {name}")


def is_allowed_leaf(node: Node, kind: Any) -> bool:
    """Whether values of an Iceberg type may be stored like this."""
    if not isinstance(kind, str):
        return False
    if decimal := _DECIMAL.fullmatch(kind):
        return _is_decimal(node) and node.precision <= int(decimal[1]) and node.scale == int(decimal[2])
    if fixed := _FIXED.fullmatch(kind):
        is_plain = (node.physical, node.annotation) == ("FIXED_LEN_BYTE_ARRAY", "")
        return is_plain and node.length == int(fixed[1])
    is_sized = kind != "uuid" or node.length == 16
    return is_sized and (node.physical, node.annotation) in _ALLOWED.get(kind, ())


def _is_decimal(node: Node) -> bool:
    is_known = node.annotation.startswith("DECIMAL") and node.length <= _DECIMAL_BYTES
    return is_known and 0 < node.precision <= _DECIMAL_DIGITS.get(node.physical, 0)


def _inside(
    node: Node, field: pa.Field, kind: Any, path: str, *, is_by_name: bool
) -> Iterator[tuple[Node, pa.Field, Any, str]]:
    """The columns inside a group, each with PyArrow's field, the table's type and its name."""
    form = node.annotation or "struct"
    wanted = None if kind is None else kind["type"] if isinstance(kind, Mapping) else kind
    if wanted is not None and form.lower() != wanted:
        raise Uncovered(f"column {path} stored as {node.stored} in a table that has {wanted}")
    if form == "LIST" and pa.types.is_list(field.type):
        element = _element(node, path)
        _same_ids(field.type, [] if kind is None else [kind["element-id"]], path)
        yield element, field.type.value_field, kind and kind["element"], "element"
    elif form == "MAP" and pa.types.is_map(field.type):
        key, value = _entries(node, path)
        _same_ids(field.type, [] if kind is None else [kind["key-id"], kind["value-id"]], path)
        yield key, field.type.key_field, kind and kind["key"], "key"
        yield value, field.type.item_field, kind and kind["value"], "value"
    elif form == "struct" and pa.types.is_struct(field.type):
        yield from _members(node, field, kind, path, is_by_name=is_by_name)
    else:
        raise Uncovered(f"column {path} stored as {node.stored}, which PyArrow reads as {field.type}")


def _same_ids(kind: pa.DataType, wanted: Sequence[int], path: str) -> None:
    """What lies in a list or a map is not found by its place: Iceberg's readers want its id."""
    if wanted and [field_id(child) for child in children(kind)] != list(wanted):
        raise Uncovered(f"column {path}: elements, keys or values with other field ids than the table's")


def _element(node: Node, path: str) -> Node:
    """Of a list in the three-level form, by the names that writers give it."""
    (middle,) = node.children if len(node.children) == 1 else (None,)
    if middle is None or middle.repetition != REPEATED or middle.annotation or len(middle.children) != 1:
        raise Uncovered(f"column {path}: a list that is not in the three-level form")
    (element,) = middle.children
    if (middle.name, element.name) not in LIST_NAMES:
        raise Uncovered(f"column {path}: a list with the levels {middle.name}.{element.name}")
    return element


def _entries(node: Node, path: str) -> tuple[Node, Node]:
    (middle,) = node.children if len(node.children) == 1 else (None,)
    if middle is None or middle.repetition != REPEATED or middle.annotation or len(middle.children) != 2:
        raise Uncovered(f"column {path}: a map that is not in the standard form")
    key, value = middle.children
    if (middle.name, key.name, value.name) != MAP_NAMES or key.repetition != REQUIRED:
        raise Uncovered(f"column {path}: a map that is not in the standard form")
    return key, value


def _members(
    node: Node, field: pa.Field, kind: Any, path: str, *, is_by_name: bool
) -> Iterator[tuple[Node, pa.Field, Any, str]]:
    found = children(field.type)
    if [child.name for child in node.children] != [child.name for child in found]:
        raise Uncovered(f"column {path}: a struct that PyArrow reads otherwise than its footer declares it")
    numbers = [number for child in found if (number := field_id(child)) is not None]
    if len(set(numbers)) < len(numbers):
        raise Uncovered(f"column {path}: two fields of the same id")
    if len(numbers) < len(found) and not is_by_name:
        raise Uncovered(f"column {path}: fields without an id beside others that have one")
    kinds: dict[int | None, Any] = {} if kind is None else {part["id"]: part["type"] for part in kind["fields"]}
    for inside, child in zip(node.children, found, strict=True):
        yield inside, child, kinds.get(field_id(child)), inside.name


def check_position_deletes(schema: FileSchema, path: str, position: str) -> None:
    """Refuses a file of position deletes unless both columns are stored as the specification says."""
    for name, kind in ((path, "string"), (position, "long")):
        found = [node for node in schema.columns if node.name == name]
        if len(found) != 1 or found[0].repetition not in (REQUIRED, OPTIONAL) or not is_allowed_leaf(found[0], kind):
            raise Uncovered(f"position deletes without a column {name} of type {kind}")
