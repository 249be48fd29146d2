"""Deletion vectors that were written with pyroaring, the reference library for Roaring bitmaps in Python."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.deletes.deletion_vectors import MAGIC, read_deletion_vector

sparse = st.sets(st.integers(0, 2**20), max_size=50)
runs = st.lists(st.tuples(st.integers(0, 2**18), st.integers(1, 9000)), max_size=4).map(
    lambda pairs: {number for start, length in pairs for number in range(start, start + length)}
)
dense = st.integers(0, 3).map(lambda step: set(range(0, 70_000, step + 1)))


def blob(positions: set[int], *, optimized: bool) -> bytes:
    """A blob as Iceberg writes it: length, magic number, a bitmap for each upper half, checksum."""
    highs = sorted({position >> 32 for position in positions})
    body = struct.pack("<I", MAGIC) + struct.pack("<Q", len(highs))
    for high in highs:
        bitmap = BitMap(position & 0xFFFFFFFF for position in positions if position >> 32 == high)
        if optimized:
            bitmap.run_optimize()
        body += struct.pack("<I", high) + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@given(st.lists(sparse | runs | dense, max_size=3), st.booleans())
def test_every_kind_of_container_is_read(parts: list[set[int]], optimized: bool) -> None:
    positions = {position + (at << 32) for at, part in enumerate(parts) for position in part}
    found = read_deletion_vector(blob(positions, optimized=optimized))
    assert found.dtype == np.int64
    assert found.tolist() == sorted(positions)


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("containers", [1, 3, 4, 5, 9])
def test_bitmaps_with_and_without_an_offset_header(containers: int, optimized: bool) -> None:
    """Bitmaps with runs have none if there are few containers."""
    positions = {(number << 16) + low for number in range(containers) for low in range(100, 300)}
    assert read_deletion_vector(blob(positions, optimized=optimized)).tolist() == sorted(positions)


@pytest.mark.parametrize("cardinality", [4095, 4096, 4097, 65536])
def test_the_limit_between_array_and_bitmap_containers(cardinality: int) -> None:
    positions = set(np.random.default_rng(0).permutation(65536)[:cardinality].tolist())
    assert read_deletion_vector(blob(positions, optimized=False)).tolist() == sorted(positions)


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_changed_byte_is_detected(place: int, change: int) -> None:
    data = bytearray(blob({1, 5, 2**33}, optimized=False))
    place = 4 + place % (len(data) - 4)
    data[place] ^= change
    with pytest.raises(UnsupportedByKernel, match="checksum"):
        read_deletion_vector(bytes(data))
