"""Deletion vectors: the blobs that Puffin files hold, as sorted positions."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from icepack.kernel.arrow_schema import Uncovered

MAGIC = 0x6439D3D1
_NO_RUNS, _RUNS = 12346, 12347
_NO_OFFSET_BELOW = 4
_ARRAY_LIMIT = 4096

Positions = np.ndarray
"""64-bit integers, sorted, each once."""


def deleted_positions(blob: bytes) -> Positions:
    """Length and magic number, a 64-bit Roaring bitmap in its portable form, and a checksum over the middle."""
    length, magic = struct.unpack_from(">I", blob, 0)[0], struct.unpack_from("<I", blob, 4)[0]
    body = blob[4 : 4 + length]
    checksum = struct.unpack_from(">I", blob, 4 + length)[0]
    if magic != MAGIC or zlib.crc32(body) != checksum:
        raise Uncovered("deletion vectors whose checksum is wrong")
    return _bitmap64(memoryview(body)[4:])


def _bitmap64(data: memoryview) -> Positions:
    (count,) = struct.unpack_from("<Q", data, 0)
    position = 8
    found = [np.empty(0, np.int64)]
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, position)
        low, position = _bitmap32(data, position + 4)
        found.append(low + (high << 32))
    return np.concatenate(found)


def _bitmap32(data: memoryview, position: int) -> tuple[Positions, int]:
    (cookie,) = struct.unpack_from("<I", data, position)
    has_runs = cookie & 0xFFFF == _RUNS
    if not has_runs and cookie != _NO_RUNS:
        raise Uncovered("deletion vectors in an unknown form")
    if has_runs:
        count = (cookie >> 16) + 1
        flags_at, position = position + 4, position + 4 + (count + 7) // 8
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, flags_at), bitorder="little")
    else:
        (count,) = struct.unpack_from("<I", data, position + 4)
        flags, position = np.zeros(count, np.uint8), position + 8
    header = np.frombuffer(data, "<u2", 2 * count, position).reshape(count, 2).astype(np.int64)
    position += 4 * count
    if not has_runs or count >= _NO_OFFSET_BELOW:
        position += 4 * count
    found = [np.empty(0, np.int64)]
    for (key, cardinality), is_run in zip(header.tolist(), flags.tolist(), strict=False):
        values, position = _container(data, position, cardinality + 1, bool(is_run))
        found.append(values + (key << 16))
    return np.concatenate(found), position


def _container(data: memoryview, position: int, cardinality: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, position)
        pairs = np.frombuffer(data, "<u2", 2 * runs, position + 2).reshape(runs, 2).astype(np.int64)
        return _spread(pairs[:, 0], pairs[:, 1] + 1), position + 2 + 4 * runs
    if cardinality <= _ARRAY_LIMIT:
        return np.frombuffer(data, "<u2", cardinality, position).astype(np.int64), position + 2 * cardinality
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, position), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), position + 8192


def _spread(starts: Positions, lengths: Positions) -> Positions:
    """Every position of every run, without a loop over the runs."""
    ends = np.cumsum(lengths)
    spread: Positions = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return spread
