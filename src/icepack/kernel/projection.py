"""A file's columns as the table's, matched by field id alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icepack.kernel.arrow_schema import (
    Uncovered,
    children,
    default_of,
    field_id,
    is_list,
    is_text,
    single_value,
    with_children,
)
from icepack.kernel.parquet.dictionaries import plain, plain_type, stored_as

Names = list[dict[str, Any]]
"""Iceberg's name mapping: for files that were written without field ids."""
LOST_FIELDS = "a struct read by name that has lost every field"


def with_ids(schema: pa.Schema, names: Names | None) -> list[pa.Field]:
    """The file's fields with their ids; from the name mapping where the file has none of its own."""
    fields = list(schema)
    if has_ids(schema):
        return fields
    if names is None:
        raise Uncovered("files without field ids in a table without a name mapping")
    return [_mapped(field, names) for field in fields]


def has_ids(schema: pa.Schema) -> bool:
    return any(_any_id(field) for field in schema)


def has_lost_all(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether a struct, however deep inside, has none of the fields left that the table gives it.

    In a file with ids it is a struct of nulls, for Iceberg's readers, too. In one that is read by name, by a mapping
    that does not know the lost fields any more, they were seen to take it for null.
    """
    if pa.types.is_map(wanted.type):
        return has_lost_all(found.type.item_field, wanted.type.item_field)
    if is_list(wanted.type):
        return has_lost_all(found.type.value_field, wanted.type.value_field)
    if not pa.types.is_struct(wanted.type):
        return False
    stored = {field_id(child): child for child in children(found.type)}
    pairs = [(stored[field_id(child)], child) for child in children(wanted.type) if field_id(child) in stored]
    return not pairs or any(has_lost_all(inside, child) for inside, child in pairs)


def _any_id(field: pa.Field) -> bool:
    return field_id(field) is not None or any(_any_id(child) for child in children(field.type))


def _mapped(field: pa.Field, names: Names, alias: str | None = None) -> pa.Field:
    entry = next((entry for entry in names if (alias or field.name) in entry["names"]), None)
    if entry is None:
        return field
    kind = _mapped_type(field.type, entry.get("fields") or [])
    number = {} if entry.get("field-id") is None else {b"PARQUET:field_id": str(entry["field-id"])}
    return pa.field(field.name, kind, field.nullable, metadata=number)


def _mapped_type(kind: pa.DataType, names: Names) -> pa.DataType:
    """Iceberg has its own names for what lies in maps and lists, whatever the file calls it."""
    inside = children(kind)
    aliases = ["key", "value"] if pa.types.is_map(kind) else ["element"] if is_list(kind) else [None] * len(inside)
    return with_children(kind, [_mapped(child, names, alias) for child, alias in zip(inside, aliases, strict=True)])


def is_same(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether the column can be taken as it is: the same types, and the same ids all the way down.

    What is read as a dictionary has the type of its entries.
    """
    if field_id(found) != field_id(wanted):
        return False
    inside, outside = children(found.type), children(wanted.type)
    if not outside:
        return bool(plain_type(found.type) == wanted.type)
    return (
        type(found.type) is type(wanted.type)
        and len(inside) == len(outside)
        and all(a.name == b.name and is_same(a, b) for a, b in zip(inside, outside, strict=True))
    )


def is_alike(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether its bytes mean the same: types, ids and what may be null, all the way down; names do not matter."""
    if field_id(found) != field_id(wanted) or found.nullable != wanted.nullable:
        return False
    inside, outside = children(found.type), children(wanted.type)
    if not outside:
        return bool(found.type == wanted.type)
    return type(found.type) is type(wanted.type) and len(inside) == len(outside) and all(map(is_alike, inside, outside))


def project(column: pa.ChunkedArray, found: pa.Field, wanted: pa.Field) -> pa.ChunkedArray:
    """The column in the table's type: children by id, promoted, null where the file has none."""
    if is_same(found, wanted) and column.type == stored_as(wanted, column.type).type:
        return column
    arrays = [_array(chunk, found, wanted) for chunk in plain(column).chunks]
    return pa.chunked_array(arrays, wanted.type)


def _array(array: pa.Array, found: pa.Field, wanted: pa.Field) -> pa.Array:
    kind = wanted.type
    if pa.types.is_struct(kind):
        return _struct(array, found, wanted)
    if pa.types.is_map(kind):
        return _map(array, found, wanted)
    if is_list(kind):
        return _list(array, found, wanted)
    return _promoted(array, kind)


def _promoted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if isinstance(kind, pa.BaseExtensionType) and array.type == kind.storage_type:
        return kind.wrap_array(array)
    if not _can_promote(array.type, kind):
        raise Uncovered(f"a column stored as {array.type} in a table that has {kind}")
    return array.cast(kind)


def _can_promote(stored: pa.DataType, kind: pa.DataType) -> bool:
    """What Iceberg's schema evolution allows, and how Parquet may store the very same type."""
    types = pa.types
    if types.is_decimal(stored) and types.is_decimal(kind):
        return bool(stored.scale == kind.scale and stored.precision <= kind.precision)
    pairs = {
        (pa.int8(), pa.int32()), (pa.int16(), pa.int32()), (pa.int32(), pa.int64()), (pa.int8(), pa.int64()),
        (pa.int16(), pa.int64()), (pa.float32(), pa.float64()),
    }  # fmt: skip
    return (stored, kind) in pairs


def _struct(array: pa.Array, found: pa.Field, wanted: pa.Field) -> pa.Array:
    stored = {field_id(child): (position, child) for position, child in enumerate(children(found.type))}
    parts = []
    for child in children(wanted.type):
        position, inside = stored.get(field_id(child), (None, None))
        if position is None:
            parts.append(missing(len(array), child))
        else:
            parts.append(_array(array.field(position), inside, child))
    return pa.StructArray.from_arrays(parts, fields=children(wanted.type), mask=_mask(array))


def missing(rows: int, wanted: pa.Field) -> pa.Array:
    """A column that the file was written without: its default, or null where that is allowed."""
    default = default_of(wanted)
    if default is not None:
        return _promoted(pa.repeat(default, rows), wanted.type)
    if not wanted.nullable:
        raise Uncovered("files without a required column")
    return pa.nulls(rows, wanted.type)


def constant(rows: int, wanted: pa.Field, said: Any) -> pa.Array:
    """A column whose value is that of the partition, as Iceberg's JSON states it; text as a dictionary of one entry."""
    if said is None:
        if not wanted.nullable:
            raise Uncovered(f"a partition in which the required column {wanted.name} is null")
        return pa.nulls(rows, wanted.type)
    value = single_value(said, wanted.type)
    if is_text(wanted.type):
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value], wanted.type))
    return _promoted(pa.repeat(value, rows), wanted.type)


def is_looser(found: pa.Field, wanted: pa.Field) -> bool:
    """Whether the file allows nulls where the table does not, at any depth."""
    if found.nullable and not wanted.nullable:
        return True
    stored = {field_id(child): child for child in children(found.type)}
    pairs = [(stored[field_id(child)], child) for child in children(wanted.type) if field_id(child) in stored]
    return any(is_looser(inside, child) for inside, child in pairs)


def refuse_nulls(column: pa.ChunkedArray, wanted: pa.Field) -> None:
    """Where the table has a required column. PyArrow also counts those that a null struct around it makes."""
    for chunk in column.chunks:
        _refuse_nulls(chunk, wanted)


def _refuse_nulls(array: pa.Array, wanted: pa.Field) -> None:
    if array.null_count and not wanted.nullable:
        raise Uncovered(f"nulls in the required column {wanted.name}")
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [array.field(position) for position in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        parts = [array.keys, array.items]
    else:
        parts = [array.flatten()] if is_list(kind) else []
    for part, child in zip(parts, children(wanted.type), strict=True):
        _refuse_nulls(part, child)


def _list(array: pa.Array, found: pa.Field, wanted: pa.Field) -> pa.Array:
    array = _settled(array)
    values = _array(array.values, found.type.value_field, wanted.type.value_field)
    return pa.ListArray.from_arrays(_offsets(array), values, type=wanted.type, mask=_mask(array))


def _map(array: pa.Array, found: pa.Field, wanted: pa.Field) -> pa.Array:
    array = _settled(array)
    keys = _array(array.keys, found.type.key_field, wanted.type.key_field)
    items = _array(array.items, found.type.item_field, wanted.type.item_field)
    made = pa.MapArray.from_arrays(_offsets(array), keys, items, type=wanted.type)
    if not array.null_count:
        return made
    return pa.Array.from_buffers(
        wanted.type, len(made), [array.buffers()[0], made.buffers()[1]], children=[_entries(made)]
    )


def _entries(made: pa.Array) -> pa.Array:
    fields = [made.type.key_field, made.type.item_field]
    return pa.StructArray.from_arrays([made.keys, made.items], fields=fields)


def _offsets(array: pa.Array) -> pa.Array:
    return array.offsets


def _settled(array: pa.Array) -> pa.Array:
    """Without an offset of its own, so that its buffers mean what they say."""
    return array if array.offset == 0 else pa.concat_arrays([array, array.slice(0, 0)])


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def by_id(fields: list[pa.Field]) -> Mapping[int, int]:
    """Field id → position among the file's fields."""
    return {number: position for position, field in enumerate(fields) if (number := field_id(field)) is not None}
