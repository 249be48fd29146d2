"""Thrift's compact protocol, as far as Parquet footers use it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

Struct = dict[int, tuple[int, Any]]
"""Field id → (type, value); a list is (element type, values), a boolean's value is in its type."""


class Reader:
    """Reads one struct after another from bytes."""

    def __init__(self, data: Any, position: int = 0) -> None:
        self._data = data
        self.position = position

    def struct(self) -> Struct:
        return {number: (kind, value) for number, kind, value in self.fields()}

    def fields(self) -> Iterator[tuple[int, int, Any]]:
        """Number, type and value of one field after another, for a caller who does not need all of them."""
        last = 0
        while (head := self._byte()) != 0:
            kind, delta = head & 0x0F, head >> 4
            last = last + delta if delta else self._zigzag()
            yield last, kind, self._value(kind)

    def _value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == BINARY:
            return self._take(self._varint())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            return self._list()
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self._byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        raise ValueError(f"Thrift type {kind} is not used by Parquet.")

    def _list(self) -> tuple[int, list[Any]]:
        head = self._byte()
        kind, size = head & 0x0F, head >> 4
        size = self._varint() if size == 15 else size
        if kind in (TRUE, FALSE):
            return kind, [self._byte() == TRUE for _ in range(size)]
        return kind, [self._value(kind) for _ in range(size)]

    def _byte(self) -> int:
        value: int = self._data[self.position]
        self.position += 1
        return value

    def _take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        return bytes(self._data[start : self.position])

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def write_struct(fields: Struct) -> bytes:
    out = bytearray()
    _struct(out, fields)
    return bytes(out)


def _struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _varint(out, _folded(number))
        last = number
        _value(out, kind, value)
    out.append(0)


def _value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _varint(out, _folded(value))
    elif kind == BINARY:
        _varint(out, len(value))
        out.extend(value)
    elif kind == STRUCT:
        _struct(out, value)
    elif kind in (LIST, SET):
        _list(out, *value)
    elif kind == BYTE:
        out.append(value)
    elif kind == DOUBLE:
        out.extend(struct.pack("<d", value))
    elif kind not in (TRUE, FALSE):
        raise ValueError(f"Thrift type {kind} is not used by Parquet.")


def _list(out: bytearray, kind: int, values: list[Any]) -> None:
    if len(values) < 15:
        out.append(len(values) << 4 | kind)
    else:
        out.append(0xF0 | kind)
        _varint(out, len(values))
    for value in values:
        if kind in (TRUE, FALSE):
            out.append(TRUE if value else FALSE)
        else:
            _value(out, kind, value)


def _varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _folded(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1
