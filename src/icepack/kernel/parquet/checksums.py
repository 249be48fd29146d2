"""Verifies the checksums of Parquet pages that are copied without being decoded."""

from __future__ import annotations

from enum import Enum
from zlib import crc32

from icepack.kernel.parquet.thrift import CompactReader

# Field ids of the page header in parquet.thrift.
_COMPRESSED_SIZE, _CRC = 3, 4
_MASK = 0xFFFFFFFF


class CorruptPage(Exception):
    """Raised for a page whose checksum does not match its bytes; it must not be rewritten as if it were intact."""

    def __init__(self, path: str, column: str, page: str) -> None:
        super().__init__(f"{path}: column {column}, {page}: the checksum of the page does not match its bytes")


class ChecksumStatus(Enum):
    """Result of comparing a page's bytes with the checksum in its header."""

    VALID = "valid"
    INVALID = "invalid"
    MISSING = "missing"
    # The bytes are not exactly one page.
    NOT_A_PAGE = "not a page"


def verify_checksum(page: memoryview) -> ChecksumStatus:
    """Verifies a page with its header. The checksum covers the stored bytes after the header."""
    size, crc = _read_size_and_crc(page)
    if size is None or not 0 <= size < len(page):
        return ChecksumStatus.NOT_A_PAGE
    if crc is not None and crc32(page[len(page) - size :]) == crc & _MASK:
        return ChecksumStatus.VALID
    if _measure_header(page) + size != len(page):
        return ChecksumStatus.NOT_A_PAGE
    return ChecksumStatus.MISSING if crc is None else ChecksumStatus.INVALID


def _read_size_and_crc(page: memoryview) -> tuple[int | None, int | None]:
    """Reads the size of the body and the checksum; the statistics that follow them are not parsed."""
    size: int | None = None
    for field_id, _, value in CompactReader(page).read_fields():
        if field_id == _COMPRESSED_SIZE:
            size = value
        elif field_id >= _CRC:
            return size, value if field_id == _CRC else None
    return size, None


def _measure_header(page: memoryview) -> int:
    reader = CompactReader(page)
    reader.read_struct()
    return reader.position
