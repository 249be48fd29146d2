"""Checksums of Parquet pages that are taken over without being decoded."""

from __future__ import annotations

from enum import Enum
from zlib import crc32

from icepack.kernel.parquet.thrift import Reader

# Numbers of fields in parquet.thrift.
_COMPRESSED_SIZE, _CRC = 3, 4
_MASK = 0xFFFFFFFF


class Checksum(Enum):
    """What a page's header says of its bytes."""

    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"
    MISPLACED = "misplaced"
    """These bytes are not one page."""


def checksum_state(page: memoryview) -> Checksum:
    """Of a page with its header. The checksum is over all that follows the header, as it is stored."""
    size, crc = _declared(page)
    if size is None or not 0 <= size < len(page):
        return Checksum.MISPLACED
    if crc is not None and crc32(page[len(page) - size :]) == crc & _MASK:
        return Checksum.RIGHT
    if _header_length(page) + size != len(page):
        return Checksum.MISPLACED
    return Checksum.MISSING if crc is None else Checksum.WRONG


def _declared(page: memoryview) -> tuple[int | None, int | None]:
    """Size of the body and checksum, which stand at the beginning: the statistics behind them are not parsed."""
    size: int | None = None
    for number, _, value in Reader(page).fields():
        if number == _COMPRESSED_SIZE:
            size = value
        elif number >= _CRC:
            return size, value if number == _CRC else None
    return size, None


def _header_length(page: memoryview) -> int:
    reader = Reader(page)
    reader.struct()
    return reader.position
