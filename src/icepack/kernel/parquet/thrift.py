"""Reads and writes Thrift's compact protocol, as far as Parquet metadata uses it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

# Field id → (type, value). The value of a list is (element type, values); a boolean's value is in its type.
ThriftStruct = dict[int, tuple[int, Any]]


class CompactReader:
    """Reads one struct after another from bytes."""

    def __init__(self, data: Any, position: int = 0) -> None:
        self._data = data
        self.position = position

    def read_struct(self) -> ThriftStruct:
        return {field_id: (kind, value) for field_id, kind, value in self.read_fields()}

    def read_fields(self) -> Iterator[tuple[int, int, Any]]:
        """Yields id, type and value of each field, for callers that do not need all of them."""
        last = 0
        while (head := self._read_byte()) != 0:
            kind, delta = head & 0x0F, head >> 4
            last = last + delta if delta else self._read_zigzag()
            yield last, kind, self._read_value(kind)

    def _read_value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._read_zigzag()
        if kind == BINARY:
            return self._read_bytes(self._read_varint())
        if kind == STRUCT:
            return self.read_struct()
        if kind in (LIST, SET):
            return self._read_list()
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self._read_byte()
        if kind == DOUBLE:
            return struct.unpack("<d", self._read_bytes(8))[0]
        raise ValueError(f"Thrift type {kind} is not used by Parquet.")

    def _read_list(self) -> tuple[int, list[Any]]:
        head = self._read_byte()
        kind, size = head & 0x0F, head >> 4
        size = self._read_varint() if size == 15 else size
        if kind in (TRUE, FALSE):
            return kind, [self._read_byte() == TRUE for _ in range(size)]
        return kind, [self._read_value(kind) for _ in range(size)]

    def _read_byte(self) -> int:
        value: int = self._data[self.position]
        self.position += 1
        return value

    def _read_bytes(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        return bytes(self._data[start : self.position])

    def _read_varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._read_byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def _read_zigzag(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)


def write_struct(fields: ThriftStruct) -> bytes:
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def _write_struct(out: bytearray, fields: ThriftStruct) -> None:
    last = 0
    for field_id in sorted(fields):
        kind, value = fields[field_id]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        if 0 < field_id - last <= 15:
            out.append((field_id - last) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, _to_zigzag(field_id))
        last = field_id
        _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _write_varint(out, _to_zigzag(value))
    elif kind == BINARY:
        _write_varint(out, len(value))
        out.extend(value)
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        _write_list(out, *value)
    elif kind == BYTE:
        out.append(value)
    elif kind == DOUBLE:
        out.extend(struct.pack("<d", value))
    elif kind not in (TRUE, FALSE):
        raise ValueError(f"Thrift type {kind} is not used by Parquet.")


def _write_list(out: bytearray, kind: int, values: list[Any]) -> None:
    if len(values) < 15:
        out.append(len(values) << 4 | kind)
    else:
        out.append(0xF0 | kind)
        _write_varint(out, len(values))
    for value in values:
        if kind in (TRUE, FALSE):
            out.append(TRUE if value else FALSE)
        else:
            _write_value(out, kind, value)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _to_zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1
