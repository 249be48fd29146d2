"""Converts columns to unsigned integers in the order of their values, and computes Iceberg's space-filling curves.

Z-order and Hilbert positions equal those of Iceberg 1.12 bit by bit: eight bytes per column, nulls as zeros, a
timestamp with a zone in seconds and one without in microseconds, a UUID as its text, a string truncated before the
character that does not fit; the Hilbert curve is Skilling's, over all 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icepack.kernel.arrow_schema import UnsupportedByKernel

UnsignedArray = npt.NDArray[np.uint64]
# Row numbers, in the narrowest type that holds them: a sort needs several such arrays.
RowNumbers = npt.NDArray[np.signedinteger[Any]]
ByteArray = npt.NDArray[np.uint8]
# Computes 64 bits of a sort key for the given rows, or for all rows.
KeyWord = Callable[[RowNumbers | None], UnsignedArray]

WORD_BITS = 64
_SIGN_BIT = np.uint64(1 << 63)
_TRUE = np.uint64(0x81 << 56)
_BLOCK_ROWS = 16384
_UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def is_bytes(data_type: pa.DataType) -> bool:
    return is_text(data_type) or bool(
        pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type) or pa.types.is_fixed_size_binary(data_type)
    )


def to_raw_values(array: pa.Array) -> npt.NDArray[Any]:
    """Returns a fixed-width column as it is in memory; nulls have arbitrary values."""
    if pa.types.is_boolean(array.type):
        return to_raw_values(array.cast(pa.int8()))
    kind = "f" if pa.types.is_floating(array.type) else "i"
    values = np.frombuffer(array.buffers()[1], f"{kind}{array.type.bit_width // 8}")
    return values[array.offset : array.offset + len(array)]


def to_ordered(values: npt.NDArray[Any]) -> UnsignedArray:
    """Returns unsigned integers that order as the numbers do, with every NaN last."""
    if values.dtype.kind != "f":
        ordered = values.astype(np.int64).view(np.uint64)
        ordered ^= _SIGN_BIT
        return ordered
    width = values.dtype.itemsize
    bits = np.where(np.isnan(values), values.dtype.type(np.nan), values).view(f"i{width}")
    flips = (bits >> (8 * width - 1)) | np.iinfo(bits.dtype).min
    return np.asarray((bits ^ flips).view(f"u{width}"), np.uint64)


def _take(entries: UnsignedArray, indices: pa.Array) -> UnsignedArray:
    """Returns the number of each row of a dictionary column, nulls as zeros."""
    if not len(entries):
        return np.zeros(len(indices), np.uint64)
    return _zero_nulls(entries[indices.fill_null(0).to_numpy()], indices)


def _zero_nulls(numbers: UnsignedArray, array: pa.Array) -> UnsignedArray:
    if not array.null_count:
        return numbers
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), numbers, np.uint64(0))


def get_byte_spans(array: pa.Array) -> tuple[ByteArray, RowNumbers, RowNumbers]:
    """Returns the bytes of a column, and where each value starts and how long it is."""
    buffers, first, last = array.buffers(), array.offset, array.offset + len(array)
    data = np.frombuffer(buffers[-1] or b"", np.uint8)
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        return data, np.arange(first, last) * width, np.full(len(array), width)
    is_wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = np.frombuffer(buffers[1], np.int64 if is_wide else np.int32)[first : last + 1].astype(np.int64)
    return data, offsets[:-1], np.diff(offsets)


def pack_leading_bytes(data: ByteArray, starts: RowNumbers, lengths: RowNumbers) -> UnsignedArray:
    """Packs the first eight bytes of each span, padded with zeros, into a big-endian integer."""
    padded = data if data.size >= 8 else np.pad(data, (0, 8 - data.size))
    windows = np.ndarray((padded.size - 7,), ">u8", padded, strides=(1,))
    packed = np.empty(len(starts), np.uint64)
    for start in range(0, len(starts), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        packed[block] = _pack_block(windows, starts[block], lengths[block])
    return packed


def _pack_block(windows: npt.NDArray[Any], starts: RowNumbers, lengths: RowNumbers) -> UnsignedArray:
    at = np.minimum(starts, windows.size - 1)
    packed = windows[at].astype(np.uint64)
    packed <<= (8 * (starts - at)).astype(np.uint64)
    missing_bytes = 8 - np.clip(lengths, 0, 8)
    packed &= np.uint64((1 << 64) - 1) << (8 * missing_bytes).astype(np.uint64)
    return packed


def to_curve_values(array: pa.Array) -> UnsignedArray:
    """Returns the eight bytes that each value of a column contributes to a curve."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.uint64)
    if pa.types.is_dictionary(array.type):
        return _take(to_curve_values(array.dictionary), array.indices)
    return _zero_nulls(_to_curve_values(array), array)


def _to_curve_values(array: pa.Array) -> UnsignedArray:
    data_type = array.type
    if data_type == pa.uuid():
        return _pack_uuid_text(array)
    if pa.types.is_boolean(data_type):
        return np.where(to_raw_values(array), _TRUE, np.uint64(0))
    if pa.types.is_timestamp(data_type) and data_type.unit != "ns":
        return to_ordered(_to_seconds(array) if data_type.tz else _to_micros(array))
    if pa.types.is_signed_integer(data_type) or pa.types.is_date32(data_type):
        return to_ordered(to_raw_values(array))
    if pa.types.is_floating(data_type):
        return to_ordered(_to_doubles(array))
    if is_bytes(data_type):
        return _pack_characters(array) if is_text(data_type) else _pack_bytes(array)
    raise UnsupportedByKernel(f"curves through columns of type {data_type}")


def _to_doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return to_raw_values(array).astype(np.float64)


def _to_seconds(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(to_raw_values(array) // _UNITS_PER_SECOND[array.type.unit])


def _to_micros(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(to_raw_values(array) * (_UNITS_PER_SECOND["us"] // _UNITS_PER_SECOND[array.type.unit]))


def _pack_bytes(array: pa.Array) -> UnsignedArray:
    data, starts, lengths = get_byte_spans(array)
    return pack_leading_bytes(data, starts, lengths)


def _pack_characters(array: pa.Array) -> UnsignedArray:
    """Packs whole characters only, as Iceberg does: one that straddles the eighth byte is left out."""
    data, starts, lengths = get_byte_spans(array)
    packed = pack_leading_bytes(data, starts, lengths)
    longer = np.flatnonzero(lengths > 8)
    cut = longer[_is_continuation(data[starts[longer] + 8])]
    for dropped in (1, 2, 3):
        last_bits = np.uint64(8 * (dropped - 1))
        continues = _is_continuation((packed[cut] >> last_bits) & np.uint64(0xFF))
        packed[cut] &= np.uint64((1 << 64) - (1 << 8 * dropped))
        cut = cut[continues]
    return packed


def _is_continuation(last: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether bytes continue a UTF-8 character."""
    return np.asarray((last & 0xC0) == 0x80)


def _pack_uuid_text(array: pa.Array) -> UnsignedArray:
    """Packs the first eight hexadecimal digits: Spark reads a UUID as a string."""
    four = (_pack_bytes(array.storage) >> np.uint64(32)).astype(">u4").view(np.uint8).reshape(-1, 4)
    digits = np.stack([_HEX_DIGITS[four >> 4], _HEX_DIGITS[four & 0xF]], axis=-1).reshape(-1, 8)
    return digits.view(">u8")[:, 0].astype(np.uint64)


def interleave_bits(columns: Sequence[UnsignedArray]) -> Iterator[KeyWord]:
    """Interleaves the columns bit by bit, without the bits that are the same in all rows."""
    varying = [_find_varying_bits(column) for column in columns]
    bits = [(bit, at) for bit in reversed(range(WORD_BITS)) for at, mask in enumerate(varying) if mask >> bit & 1]
    for start in range(0, len(bits), WORD_BITS):
        yield _build_interleaved_word(columns, bits[start : start + WORD_BITS])


def _find_varying_bits(column: UnsignedArray) -> int:
    return int(np.bitwise_or.reduce(column ^ column[0])) if column.size else 0


def _build_interleaved_word(columns: Sequence[UnsignedArray], bits: Sequence[tuple[int, int]]) -> KeyWord:
    """Builds a lookup table for each byte of each column that contributes to the word."""
    tables: dict[tuple[int, int], UnsignedArray] = {}
    all_bytes = np.arange(256, dtype=np.uint64)
    for shift, (bit, at) in zip(reversed(range(len(bits))), bits, strict=True):
        table = tables.setdefault((at, bit // 8), np.zeros(256, np.uint64))
        table |= (all_bytes >> np.uint64(bit % 8) & np.uint64(1)) << np.uint64(shift)
    used = sorted({at for at, _ in tables})

    def compute_word(rows: RowNumbers | None) -> UnsignedArray:
        taken = {at: columns[at] if rows is None else columns[at][rows] for at in used}
        return _look_up({at: _view_bytes(column) for at, column in taken.items()}, tables)

    return compute_word


def _view_bytes(column: UnsignedArray) -> ByteArray:
    return np.ascontiguousarray(column, "<u8").view(np.uint8).reshape(-1, 8)


def _look_up(columns: dict[int, ByteArray], tables: dict[tuple[int, int], UnsignedArray]) -> UnsignedArray:
    words = np.zeros(len(next(iter(columns.values()))), np.uint64)
    for start in range(0, len(words), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        for (at, byte), table in tables.items():
            words[block] |= table[columns[at][block, byte]]
    return words


def transform_hilbert(columns: Sequence[UnsignedArray]) -> list[UnsignedArray]:
    """Applies Skilling's transform from axes to the transposed Hilbert index, which has to be interleaved."""
    lowest = max((_find_varying_bits(column).bit_length() for column in columns), default=0)
    if not lowest:
        return list(columns)
    heads, sources, flips = _transform_shared_bits([int(column[0]) for column in columns], lowest)
    below = np.uint64((1 << lowest) - 1)
    axes = [
        ((columns[source] ^ np.uint64(flip)) & below) | (np.uint64(head) & ~below)
        for head, source, flip in zip(heads, sources, flips, strict=True)
    ]
    for start in range(0, len(axes[0]), _BLOCK_ROWS):
        _transform_block([axis[start : start + _BLOCK_ROWS] for axis in axes], lowest)
    return axes


def _transform_shared_bits(heads: list[int], lowest: int) -> tuple[list[int], list[int], list[int]]:
    """Finds how the leading bits that all rows share exchange and flip the axes of the bits below them."""
    sources, flips = list(range(len(heads))), [0] * len(heads)
    for bit in reversed(range(lowest, WORD_BITS)):
        below = (1 << bit) - 1
        for at in range(len(heads)):
            if heads[at] >> bit & 1:
                heads[0], flips[0] = heads[0] ^ below, flips[0] ^ (1 << WORD_BITS) - 1
            else:
                exchanged = (heads[0] ^ heads[at]) & below
                heads[0] ^= exchanged
                heads[at] ^= exchanged if at else 0
                sources[0], sources[at], flips[0], flips[at] = sources[at], sources[0], flips[at], flips[0]
    return heads, sources, flips


def _transform_block(axes: list[UnsignedArray], bits: int) -> None:
    for bit in reversed(range(1, bits)):
        _transform_bit(axes, bit)
    for before, axis in pairwise(axes):
        np.bitwise_xor(axis, before, out=axis)
    parity = axes[-1] >> np.uint64(1)
    for distance in (1, 2, 4, 8, 16, 32):
        parity ^= parity >> np.uint64(distance)
    for axis in axes:
        np.bitwise_xor(axis, parity, out=axis)


def _transform_bit(axes: list[UnsignedArray], bit: int) -> None:
    """Where an axis has the bit, flips the first axis below it; elsewhere exchanges the two axes below it."""
    only, below = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
    first = axes[0]
    for axis in axes:
        flipped = axis & only
        flipped -= flipped >> np.uint64(bit)
        if axis is not first:
            exchanged = first ^ axis
            exchanged &= flipped ^ below
            np.bitwise_xor(axis, exchanged, out=axis)
            first ^= exchanged
        first ^= flipped
