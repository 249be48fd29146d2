"""Columns that are dictionaries, or have some inside: texts that are read and written without being looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from icepack.kernel.arrow_schema import children, is_nested, leaf_types, with_children


def has_dictionary(kind: pa.DataType) -> bool:
    return any(map(pa.types.is_dictionary, leaf_types(kind)))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """With the entries' type wherever there is a dictionary."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return with_children(kind, [child.with_type(plain_type(child.type)) for child in children(kind)])


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(plain_type(column.type)) if has_dictionary(column.type) else column


def stored_as(field: pa.Field, kind: pa.DataType) -> pa.Field:
    """The field, with dictionaries where `kind` has them."""
    if pa.types.is_dictionary(kind):
        return field.with_type(pa.dictionary(kind.index_type, field.type))
    inside, outside = children(kind), children(field.type)
    if not outside or len(inside) != len(outside):
        return field
    parts = [stored_as(child, found.type) for child, found in zip(outside, inside, strict=True)]
    return field.with_type(with_children(field.type, parts))


def has_own_nulls(field: pa.Field, *, may_be_hidden: bool = False) -> Iterator[bool]:
    """For each Parquet column of a field, whether it is null itself wherever a struct around it is.

    PyArrow gives the others some entry of the dictionary there, even where that has none.
    """
    if pa.types.is_struct(field.type):
        for child in children(field.type):
            yield from has_own_nulls(child, may_be_hidden=may_be_hidden or field.nullable)
    elif is_nested(field.type):
        for child in children(field.type):
            yield from has_own_nulls(child)
    else:
        yield field.nullable or not may_be_hidden


def together(parts: Sequence[pa.ChunkedArray], kind: pa.DataType) -> pa.ChunkedArray:
    """One column; dictionaries stay such where every part has the same ones, and become one."""
    if parts and has_dictionary(parts[0].type) and all(part.type == parts[0].type for part in parts):
        chunks = [chunk for part in parts for chunk in part.chunks]
        return pa.chunked_array(chunks, parts[0].type).unify_dictionaries()
    return pa.chunked_array([chunk for part in map(plain, parts) for chunk in part.chunks], kind)


def without_leftovers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Only dictionary entries that a row refers to: what was deleted must not live on in the output."""
    if not pa.types.is_dictionary(column.type):
        return plain(column)
    dictionary = column.chunk(0).dictionary
    used = np.zeros(len(dictionary), np.bool_)
    for chunk in column.chunks:
        used[chunk.indices.drop_null().to_numpy()] = True
    if used.all():
        return column
    places = pa.array(np.cumsum(used, dtype=np.int32) - np.int32(1))
    kept = dictionary.filter(pa.array(used))
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(places.take(chunk.indices), kept) for chunk in column.chunks]
    )
