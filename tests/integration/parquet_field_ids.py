"""Adds field ids to Parquet files that were written without them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from icepack.kernel.parquet.thrift import I32, CompactReader, write_struct


def add_field_ids(path: Path, schema: Mapping[str, Any]) -> None:
    """Writes the field ids of the table's schema into the footer of a file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = CompactReader(data, len(data) - 8 - length).read_struct()
    kind, elements = footer[2][1]
    remaining = iter(elements)
    root = next(remaining)
    for _ in range(root[5][1]):
        _set_field_ids(remaining, {"type": "struct", "fields": schema["fields"]})
    assert kind is not None
    encoded = write_struct(footer)
    path.write_bytes(data[: len(data) - 8 - length] + encoded + struct.pack("<I", len(encoded)) + b"PAR1")


def _set_field_ids(remaining: Iterator[Any], parent: Mapping[str, Any]) -> None:
    """Sets the ids of the next element, which is a field of the struct, and of its nested fields."""
    element = next(remaining)
    name = element[4][1].decode()
    field = next((field for field in parent["fields"] if field["name"] == name), None)
    if field is None:
        return _skip(remaining, element)
    element[9] = (I32, field["id"])
    return _set_nested_ids(remaining, element, field["type"])


def _set_nested_ids(remaining: Iterator[Any], element: Any, kind: Any) -> None:
    count = element.get(5, (I32, 0))[1]
    if not count:
        return
    if kind["type"] == "struct":
        for _ in range(count):
            _set_field_ids(remaining, kind)
        return
    repeated = next(remaining)
    nested = [("key", "key-id"), ("value", "value-id")] if kind["type"] == "map" else [("element", "element-id")]
    if 5 not in repeated:
        repeated[9] = (I32, kind[nested[0][1]])
        return
    for name, id_name in nested:
        child = next(remaining)
        child[9] = (I32, kind[id_name])
        _set_nested_ids(remaining, child, kind[name])


def _skip(remaining: Iterator[Any], element: Any) -> None:
    for _ in range(element.get(5, (I32, 0))[1]):
        _skip(remaining, next(remaining))
