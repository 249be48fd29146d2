"""Reads deletion vectors, the blobs in Puffin files, as sorted positions."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from icepack.kernel.arrow_schema import UnsupportedByKernel

MAGIC = 0x6439D3D1
# Cookies of a Roaring bitmap without and with run containers.
_NO_RUN_COOKIE, _RUN_COOKIE = 12346, 12347
# Bitmaps with run containers have an offset header only from this many containers on.
_MIN_OFFSET_CONTAINERS = 4
_MAX_ARRAY_CARDINALITY = 4096

# Sorted 64-bit integers without duplicates.
Positions = np.ndarray


def read_deletion_vector(blob: bytes) -> Positions:
    """Reads length and magic number, a 64-bit Roaring bitmap in its portable format, and a checksum over both."""
    length, magic = struct.unpack_from(">I", blob, 0)[0], struct.unpack_from("<I", blob, 4)[0]
    body = blob[4 : 4 + length]
    checksum = struct.unpack_from(">I", blob, 4 + length)[0]
    if magic != MAGIC or zlib.crc32(body) != checksum:
        raise UnsupportedByKernel("deletion vectors whose checksum is wrong")
    return _read_bitmap64(memoryview(body)[4:])


def _read_bitmap64(data: memoryview) -> Positions:
    (count,) = struct.unpack_from("<Q", data, 0)
    offset = 8
    parts = [np.empty(0, np.int64)]
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, offset)
        low, offset = _read_bitmap32(data, offset + 4)
        parts.append(low + (high << 32))
    return np.concatenate(parts)


def _read_bitmap32(data: memoryview, offset: int) -> tuple[Positions, int]:
    (cookie,) = struct.unpack_from("<I", data, offset)
    has_runs = cookie & 0xFFFF == _RUN_COOKIE
    if not has_runs and cookie != _NO_RUN_COOKIE:
        raise UnsupportedByKernel("deletion vectors in an unknown format")
    if has_runs:
        count = (cookie >> 16) + 1
        flags_at, offset = offset + 4, offset + 4 + (count + 7) // 8
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, flags_at), bitorder="little")
    else:
        (count,) = struct.unpack_from("<I", data, offset + 4)
        flags, offset = np.zeros(count, np.uint8), offset + 8
    header = np.frombuffer(data, "<u2", 2 * count, offset).reshape(count, 2).astype(np.int64)
    offset += 4 * count
    if not has_runs or count >= _MIN_OFFSET_CONTAINERS:
        offset += 4 * count
    parts = [np.empty(0, np.int64)]
    for (key, cardinality), is_run in zip(header.tolist(), flags.tolist(), strict=False):
        values, offset = _read_container(data, offset, cardinality + 1, bool(is_run))
        parts.append(values + (key << 16))
    return np.concatenate(parts), offset


def _read_container(data: memoryview, offset: int, cardinality: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, offset)
        pairs = np.frombuffer(data, "<u2", 2 * runs, offset + 2).reshape(runs, 2).astype(np.int64)
        return _expand_runs(pairs[:, 0], pairs[:, 1] + 1), offset + 2 + 4 * runs
    if cardinality <= _MAX_ARRAY_CARDINALITY:
        return np.frombuffer(data, "<u2", cardinality, offset).astype(np.int64), offset + 2 * cardinality
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, offset), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), offset + 8192


def _expand_runs(starts: Positions, lengths: Positions) -> Positions:
    """Returns every position of every run, without a loop over the runs."""
    ends = np.cumsum(lengths)
    expanded: Positions = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return expanded
