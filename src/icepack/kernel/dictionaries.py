"""Arrow columns that are dictionaries or contain some: strings that are read and written without being looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from icepack.kernel.arrow_schema import get_child_fields, is_nested, list_leaf_types, replace_child_fields


def has_dictionary(data_type: pa.DataType) -> bool:
    return any(map(pa.types.is_dictionary, list_leaf_types(data_type)))


def to_plain_type(data_type: pa.DataType) -> pa.DataType:
    """Replaces every dictionary type by the type of its entries."""
    if pa.types.is_dictionary(data_type):
        return data_type.value_type
    children = get_child_fields(data_type)
    return replace_child_fields(data_type, [child.with_type(to_plain_type(child.type)) for child in children])


def decode_dictionaries(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(to_plain_type(column.type)) if has_dictionary(column.type) else column


def apply_dictionary_types(field: pa.Field, data_type: pa.DataType) -> pa.Field:
    """Returns the field with dictionaries where `data_type` has them."""
    if pa.types.is_dictionary(data_type):
        return field.with_type(pa.dictionary(data_type.index_type, field.type))
    children, own_children = get_child_fields(data_type), get_child_fields(field.type)
    if not own_children or len(children) != len(own_children):
        return field
    parts = [apply_dictionary_types(own, child.type) for own, child in zip(own_children, children, strict=True)]
    return field.with_type(replace_child_fields(field.type, parts))


def iter_own_nulls(field: pa.Field, *, may_be_hidden: bool = False) -> Iterator[bool]:
    """Yields for each Parquet column of a field whether it is null itself wherever an enclosing struct is null.

    For the other columns PyArrow refers to some entry of the dictionary there, even if the dictionary is empty.
    """
    if pa.types.is_struct(field.type):
        for child in get_child_fields(field.type):
            yield from iter_own_nulls(child, may_be_hidden=may_be_hidden or field.nullable)
    elif is_nested(field.type):
        for child in get_child_fields(field.type):
            yield from iter_own_nulls(child)
    else:
        yield field.nullable or not may_be_hidden


def concat_columns(parts: Sequence[pa.ChunkedArray], data_type: pa.DataType) -> pa.ChunkedArray:
    """Concatenates columns. Dictionaries are kept, and unified, if all parts have the same dictionary types."""
    if parts and has_dictionary(parts[0].type) and all(part.type == parts[0].type for part in parts):
        chunks = [chunk for part in parts for chunk in part.chunks]
        return pa.chunked_array(chunks, parts[0].type).unify_dictionaries()
    return pa.chunked_array([chunk for part in map(decode_dictionaries, parts) for chunk in part.chunks], data_type)


def drop_unused_entries(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Drops dictionary entries that no row refers to: deleted values must not stay in the output."""
    if not pa.types.is_dictionary(column.type):
        return decode_dictionaries(column)
    dictionary = column.chunk(0).dictionary
    is_used = np.zeros(len(dictionary), np.bool_)
    for chunk in column.chunks:
        is_used[chunk.indices.drop_null().to_numpy()] = True
    if is_used.all():
        return column
    new_indices = pa.array(np.cumsum(is_used, dtype=np.int32) - np.int32(1))
    entries = dictionary.filter(pa.array(is_used))
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(new_indices.take(chunk.indices), entries) for chunk in column.chunks]
    )
