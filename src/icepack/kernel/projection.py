"""Projects a file's columns to the table's schema; columns are matched by field id alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icepack.kernel.arrow_schema import (
    FIELD_ID_KEY,
    UnsupportedByKernel,
    find_field_id,
    get_child_fields,
    is_list,
    is_string_or_binary,
    parse_single_value,
    read_initial_default,
    replace_child_fields,
)
from icepack.kernel.dictionaries import apply_dictionary_types, decode_dictionaries, to_plain_type

# Iceberg's name mapping, for files that were written without field ids.
NameMapping = list[dict[str, Any]]
STRUCT_WITHOUT_FIELDS = "a struct read by name that has lost every field"


def assign_field_ids(schema: pa.Schema, name_mapping: NameMapping | None) -> list[pa.Field]:
    """Returns the file's fields with their ids, which come from the name mapping if the file has none."""
    fields = list(schema)
    if has_field_ids(schema):
        return fields
    if name_mapping is None:
        raise UnsupportedByKernel("files without field ids in a table without a name mapping")
    return [_apply_name_mapping(field, name_mapping) for field in fields]


def has_field_ids(schema: pa.Schema) -> bool:
    return any(_has_field_id(field) for field in schema)


def has_struct_without_fields(file_field: pa.Field, table_field: pa.Field) -> bool:
    """Whether the file has none of the fields that the table has for a struct, at any depth.

    In a file with field ids, Iceberg's readers also return a struct of nulls. In a file that is read by name, with a
    mapping that no longer contains the dropped fields, they were seen to return null.
    """
    file_type, table_type = file_field.type, table_field.type
    if pa.types.is_map(table_type):
        return has_struct_without_fields(file_type.item_field, table_type.item_field)
    if is_list(table_type):
        return has_struct_without_fields(file_type.value_field, table_type.value_field)
    if not pa.types.is_struct(table_type):
        return False
    pairs = _pair_children(file_field, table_field)
    return not pairs or any(has_struct_without_fields(file_child, child) for file_child, child in pairs)


def _pair_children(file_field: pa.Field, table_field: pa.Field) -> list[tuple[pa.Field, pa.Field]]:
    """Returns the child fields that both have, matched by field id."""
    stored = {find_field_id(child): child for child in get_child_fields(file_field.type)}
    children = get_child_fields(table_field.type)
    return [(stored[find_field_id(child)], child) for child in children if find_field_id(child) in stored]


def _has_field_id(field: pa.Field) -> bool:
    return find_field_id(field) is not None or any(_has_field_id(child) for child in get_child_fields(field.type))


def _apply_name_mapping(field: pa.Field, name_mapping: NameMapping, alias: str | None = None) -> pa.Field:
    entry = next((entry for entry in name_mapping if (alias or field.name) in entry["names"]), None)
    if entry is None:
        return field
    data_type = _apply_name_mapping_to_type(field.type, entry.get("fields") or [])
    field_id = {} if entry.get("field-id") is None else {FIELD_ID_KEY: str(entry["field-id"])}
    return pa.field(field.name, data_type, field.nullable, metadata=field_id)


def _apply_name_mapping_to_type(data_type: pa.DataType, name_mapping: NameMapping) -> pa.DataType:
    """Maps the children. Iceberg has fixed names for those of maps and lists, whatever the file calls them."""
    children = get_child_fields(data_type)
    aliases: list[str | None] = [None] * len(children)
    if pa.types.is_map(data_type):
        aliases = ["key", "value"]
    elif is_list(data_type):
        aliases = ["element"]
    pairs = zip(children, aliases, strict=True)
    return replace_child_fields(data_type, [_apply_name_mapping(child, name_mapping, alias) for child, alias in pairs])


def is_usable_as_is(file_field: pa.Field, table_field: pa.Field) -> bool:
    """Whether a column needs no projection: types, field ids and nested names are the same at all depths.

    A column that is read as a dictionary counts as the type of its entries.
    """
    if find_field_id(file_field) != find_field_id(table_field):
        return False
    file_children, children = get_child_fields(file_field.type), get_child_fields(table_field.type)
    if not children:
        return bool(to_plain_type(file_field.type) == table_field.type)
    return (
        type(file_field.type) is type(table_field.type)
        and len(file_children) == len(children)
        and all(a.name == b.name and is_usable_as_is(a, b) for a, b in zip(file_children, children, strict=True))
    )


def is_byte_compatible(file_field: pa.Field, table_field: pa.Field) -> bool:
    """Whether stored bytes mean the same: types, field ids and nullability are the same at all depths, names not."""
    if find_field_id(file_field) != find_field_id(table_field) or file_field.nullable != table_field.nullable:
        return False
    file_children, children = get_child_fields(file_field.type), get_child_fields(table_field.type)
    if not children:
        return bool(file_field.type == table_field.type)
    return (
        type(file_field.type) is type(table_field.type)
        and len(file_children) == len(children)
        and all(map(is_byte_compatible, file_children, children))
    )


def project_column(column: pa.ChunkedArray, file_field: pa.Field, table_field: pa.Field) -> pa.ChunkedArray:
    """Returns the column in the table's type: children matched by id, promoted, and filled in where missing."""
    if (
        is_usable_as_is(file_field, table_field)
        and column.type == apply_dictionary_types(table_field, column.type).type
    ):
        return column
    arrays = [_project_array(chunk, file_field, table_field) for chunk in decode_dictionaries(column).chunks]
    return pa.chunked_array(arrays, table_field.type)


def _project_array(array: pa.Array, file_field: pa.Field, table_field: pa.Field) -> pa.Array:
    data_type = table_field.type
    if pa.types.is_struct(data_type):
        return _project_struct(array, file_field, table_field)
    if pa.types.is_map(data_type):
        return _project_map(array, file_field, table_field)
    if is_list(data_type):
        return _project_list(array, file_field, table_field)
    return _promote(array, data_type)


def _promote(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if array.type == data_type:
        return array
    if isinstance(data_type, pa.BaseExtensionType) and array.type == data_type.storage_type:
        return data_type.wrap_array(array)
    if not _can_promote(array.type, data_type):
        raise UnsupportedByKernel(f"a column stored as {array.type} in a table that has {data_type}")
    return array.cast(data_type)


def _can_promote(stored: pa.DataType, data_type: pa.DataType) -> bool:
    """Whether Iceberg's schema evolution allows the promotion, or Parquet stores the same type with fewer bits."""
    types = pa.types
    if types.is_decimal(stored) and types.is_decimal(data_type):
        return bool(stored.scale == data_type.scale and stored.precision <= data_type.precision)
    pairs = {
        (pa.int8(), pa.int32()), (pa.int16(), pa.int32()), (pa.int32(), pa.int64()), (pa.int8(), pa.int64()),
        (pa.int16(), pa.int64()), (pa.float32(), pa.float64()),
    }  # fmt: skip
    return (stored, data_type) in pairs


def _project_struct(array: pa.Array, file_field: pa.Field, table_field: pa.Field) -> pa.Array:
    stored = {find_field_id(child): (at, child) for at, child in enumerate(get_child_fields(file_field.type))}
    children = get_child_fields(table_field.type)
    parts = []
    for child in children:
        position, file_child = stored.get(find_field_id(child), (None, None))
        if position is None:
            parts.append(fill_missing(len(array), child))
        else:
            parts.append(_project_array(array.field(position), file_child, child))
    return pa.StructArray.from_arrays(parts, fields=children, mask=_build_null_mask(array))


def fill_missing(rows: int, table_field: pa.Field) -> pa.Array:
    """Fills a column that the file was written without: with its initial default, or null if that is allowed."""
    default = read_initial_default(table_field)
    if default is not None:
        return _promote(pa.repeat(default, rows), table_field.type)
    if not table_field.nullable:
        raise UnsupportedByKernel("files without a required column")
    return pa.nulls(rows, table_field.type)


def fill_constant(rows: int, table_field: pa.Field, value: Any) -> pa.Array:
    """Fills a column with the value of its partition, in Iceberg's JSON single-value serialization.

    Strings and bytes become a dictionary of one entry.
    """
    if value is None:
        if not table_field.nullable:
            raise UnsupportedByKernel(f"a partition in which the required column {table_field.name} is null")
        return pa.nulls(rows, table_field.type)
    scalar = parse_single_value(value, table_field.type)
    if is_string_or_binary(table_field.type):
        indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
        return pa.DictionaryArray.from_arrays(indices, pa.array([scalar], table_field.type))
    return _promote(pa.repeat(scalar, rows), table_field.type)


def allows_more_nulls(file_field: pa.Field, table_field: pa.Field) -> bool:
    """Whether the file allows nulls where the table does not, at any depth."""
    if file_field.nullable and not table_field.nullable:
        return True
    return any(allows_more_nulls(file_child, child) for file_child, child in _pair_children(file_field, table_field))


def reject_nulls(column: pa.ChunkedArray, table_field: pa.Field) -> None:
    """Raises UnsupportedByKernel for nulls in a required column, including those below a struct that is null."""
    for chunk in column.chunks:
        _reject_nulls(chunk, table_field)


def _reject_nulls(array: pa.Array, table_field: pa.Field) -> None:
    if array.null_count and not table_field.nullable:
        raise UnsupportedByKernel(f"nulls in the required column {table_field.name}")
    data_type = array.type
    if pa.types.is_struct(data_type):
        parts = [array.field(position) for position in range(data_type.num_fields)]
    elif pa.types.is_map(data_type):
        parts = [array.keys, array.items]
    else:
        parts = [array.flatten()] if is_list(data_type) else []
    for part, child in zip(parts, get_child_fields(table_field.type), strict=True):
        _reject_nulls(part, child)


def _project_list(array: pa.Array, file_field: pa.Field, table_field: pa.Field) -> pa.Array:
    array = _remove_offset(array)
    values = _project_array(array.values, file_field.type.value_field, table_field.type.value_field)
    return pa.ListArray.from_arrays(array.offsets, values, type=table_field.type, mask=_build_null_mask(array))


def _project_map(array: pa.Array, file_field: pa.Field, table_field: pa.Field) -> pa.Array:
    array = _remove_offset(array)
    keys = _project_array(array.keys, file_field.type.key_field, table_field.type.key_field)
    items = _project_array(array.items, file_field.type.item_field, table_field.type.item_field)
    projected = pa.MapArray.from_arrays(array.offsets, keys, items, type=table_field.type)
    if not array.null_count:
        return projected
    # MapArray.from_arrays takes no null mask, so the validity bitmap is put before the new offsets.
    buffers = [array.buffers()[0], projected.buffers()[1]]
    return pa.Array.from_buffers(table_field.type, len(projected), buffers, children=[_build_entries(projected)])


def _build_entries(array: pa.Array) -> pa.Array:
    fields = [array.type.key_field, array.type.item_field]
    return pa.StructArray.from_arrays([array.keys, array.items], fields=fields)


def _remove_offset(array: pa.Array) -> pa.Array:
    """Returns the array without an offset, so that its buffers start with its first value."""
    return array if array.offset == 0 else pa.concat_arrays([array, array.slice(0, 0)])


def _build_null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def index_by_field_id(fields: list[pa.Field]) -> Mapping[int, int]:
    """Returns the position of each of the file's fields, by field id."""
    return {
        field_id: position for position, field in enumerate(fields) if (field_id := find_field_id(field)) is not None
    }
