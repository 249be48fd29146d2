"""Columns as unsigned numbers that order as their values do, and the curves that Iceberg lays through them.

Z-order and Hilbert positions are those of Iceberg 1.12, bit for bit: eight bytes a column, nulls as zeros, a timestamp
with a zone in seconds and one without in microseconds, a UUID as its text, a string cut before the character that
does not fit; the Hilbert curve is Skilling's, over all 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from icepack.kernel.arrow_schema import Uncovered

Numbers = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.signedinteger[Any]]
"""As narrow as their number allows: to sort takes several such arrays."""
Bytes = npt.NDArray[np.uint8]
Word = Callable[[Rows | None], Numbers]
"""Part of a sort key: a number for each of the given rows, or for all of them."""

WORD_BITS = 64
_SIGN = np.uint64(1 << 63)
_TRUE = np.uint64(0x81 << 56)
_BLOCK_ROWS = 16384
_UNITS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def raw(array: pa.Array) -> npt.NDArray[Any]:
    """A column of fixed width as it lies in memory; what stands for a null is anything."""
    if pa.types.is_boolean(array.type):
        return raw(array.cast(pa.int8()))
    sort = "f" if pa.types.is_floating(array.type) else "i"
    values = np.frombuffer(array.buffers()[1], f"{sort}{array.type.bit_width // 8}")
    return values[array.offset : array.offset + len(array)]


def ordered(values: npt.NDArray[Any]) -> Numbers:
    """Numbers by sign and size, then every NaN."""
    if values.dtype.kind != "f":
        numbers = values.astype(np.int64).view(np.uint64)
        numbers ^= _SIGN
        return numbers
    width = values.dtype.itemsize
    bits = np.where(np.isnan(values), values.dtype.type(np.nan), values).view(f"i{width}")
    flips = (bits >> (8 * width - 1)) | np.iinfo(bits.dtype).min
    return np.asarray((bits ^ flips).view(f"u{width}"), np.uint64)


def picked(numbers: Numbers, indices: pa.Array) -> Numbers:
    """The number of each row of a dictionary column, nulls as zeros."""
    if not len(numbers):
        return np.zeros(len(indices), np.uint64)
    return valid_or_zero(numbers[indices.fill_null(0).to_numpy()], indices)


def valid_or_zero(numbers: Numbers, array: pa.Array) -> Numbers:
    if not array.null_count:
        return numbers
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), numbers, np.uint64(0))


def spans(array: pa.Array) -> tuple[Bytes, Rows, Rows]:
    """The bytes of a column, and where each value starts and how long it is."""
    buffers, first, last = array.buffers(), array.offset, array.offset + len(array)
    data = np.frombuffer(buffers[-1] or b"", np.uint8)
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        return data, np.arange(first, last) * width, np.full(len(array), width)
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    ends = np.frombuffer(buffers[1], np.int64 if wide else np.int32)[first : last + 1].astype(np.int64)
    return data, ends[:-1], np.diff(ends)


def eight_bytes(data: Bytes, starts: Rows, lengths: Rows) -> Numbers:
    """The first eight bytes of each span, filled up with zeros, the first one weighing most."""
    padded = data if data.size >= 8 else np.pad(data, (0, 8 - data.size))
    windows = np.ndarray((padded.size - 7,), ">u8", padded, strides=(1,))
    numbers = np.empty(len(starts), np.uint64)
    for start in range(0, len(starts), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        numbers[block] = _eight_bytes(windows, starts[block], lengths[block])
    return numbers


def _eight_bytes(windows: npt.NDArray[Any], starts: Rows, lengths: Rows) -> Numbers:
    at = np.minimum(starts, windows.size - 1)
    numbers = windows[at].astype(np.uint64)
    numbers <<= (8 * (starts - at)).astype(np.uint64)
    missing_bytes = 8 - np.clip(lengths, 0, 8)
    numbers &= np.uint64((1 << 64) - 1) << (8 * missing_bytes).astype(np.uint64)
    return numbers


def curve_numbers(array: pa.Array) -> Numbers:
    """The eight bytes that each value of a column contributes to a curve."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.uint64)
    if pa.types.is_dictionary(array.type):
        return picked(curve_numbers(array.dictionary), array.indices)
    return valid_or_zero(_curve_numbers(array), array)


def _curve_numbers(array: pa.Array) -> Numbers:
    kind = array.type
    if kind == pa.uuid():
        return _text_of_uuids(array)
    if pa.types.is_boolean(kind):
        return np.where(raw(array), _TRUE, np.uint64(0))
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return ordered(raw(array) // _UNITS_A_SECOND[kind.unit] if kind.tz else _micros(array))
    if pa.types.is_signed_integer(kind) or pa.types.is_date32(kind):
        return ordered(raw(array))
    if pa.types.is_floating(kind):
        return ordered(_doubles(array))
    if is_bytes(kind):
        return _first_characters(array) if is_text(kind) else _first_bytes(array)
    raise Uncovered(f"curves through columns of type {kind}")


def _doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return raw(array).astype(np.float64)


def _micros(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(raw(array) * (_UNITS_A_SECOND["us"] // _UNITS_A_SECOND[array.type.unit]))


def _first_bytes(array: pa.Array) -> Numbers:
    data, starts, lengths = spans(array)
    return eight_bytes(data, starts, lengths)


def _first_characters(array: pa.Array) -> Numbers:
    """Iceberg encodes whole characters only, so one that straddles the eighth byte is left out."""
    data, starts, lengths = spans(array)
    numbers = eight_bytes(data, starts, lengths)
    longer = np.flatnonzero(lengths > 8)
    cut = longer[_is_continuation(data[starts[longer] + 8])]
    for dropped in (1, 2, 3):
        last_bits = np.uint64(8 * (dropped - 1))
        continues = _is_continuation((numbers[cut] >> last_bits) & np.uint64(0xFF))
        numbers[cut] &= np.uint64((1 << 64) - (1 << 8 * dropped))
        cut = cut[continues]
    return numbers


def _is_continuation(last: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray((last & 0xC0) == 0x80)


def _text_of_uuids(array: pa.Array) -> Numbers:
    """The first eight hexadecimal digits: Spark reads a UUID as a string."""
    four = (_first_bytes(array.storage) >> np.uint64(32)).astype(">u4").view(np.uint8).reshape(-1, 4)
    digits = np.stack([_HEX[four >> 4], _HEX[four & 0xF]], axis=-1).reshape(-1, 8)
    return digits.view(">u8")[:, 0].astype(np.uint64)


def interleaved(columns: Sequence[Numbers]) -> Iterator[Word]:
    """Bit after bit, one of each column at a time, without the bits that are the same in all rows."""
    varying = [_varying(column) for column in columns]
    bits = [(bit, at) for bit in reversed(range(WORD_BITS)) for at, mask in enumerate(varying) if mask >> bit & 1]
    for start in range(0, len(bits), WORD_BITS):
        yield _woven(columns, bits[start : start + WORD_BITS])


def _varying(column: Numbers) -> int:
    return int(np.bitwise_or.reduce(column ^ column[0])) if column.size else 0


def _woven(columns: Sequence[Numbers], bits: Sequence[tuple[int, int]]) -> Word:
    tables: dict[tuple[int, int], Numbers] = {}
    every = np.arange(256, dtype=np.uint64)
    for shift, (bit, at) in zip(reversed(range(len(bits))), bits, strict=True):
        table = tables.setdefault((at, bit // 8), np.zeros(256, np.uint64))
        table |= (every >> np.uint64(bit % 8) & np.uint64(1)) << np.uint64(shift)
    used = sorted({at for at, _ in tables})

    def word(rows: Rows | None) -> Numbers:
        taken = {at: columns[at] if rows is None else columns[at][rows] for at in used}
        return _looked_up({at: _bytes_of(column) for at, column in taken.items()}, tables)

    return word


def _bytes_of(column: Numbers) -> Bytes:
    return np.ascontiguousarray(column, "<u8").view(np.uint8).reshape(-1, 8)


def _looked_up(columns: dict[int, Bytes], tables: dict[tuple[int, int], Numbers]) -> Numbers:
    numbers = np.zeros(len(next(iter(columns.values()))), np.uint64)
    for start in range(0, len(numbers), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        for (at, byte), table in tables.items():
            numbers[block] |= table[columns[at][block, byte]]
    return numbers


def hilbert(columns: Sequence[Numbers]) -> list[Numbers]:
    """Positions on the Hilbert curve, to be interleaved: Skilling's transform from axes to the transposed index."""
    lowest = max((_varying(column).bit_length() for column in columns), default=0)
    if not lowest:
        return list(columns)
    heads, sources, flips = _shared_turns([int(column[0]) for column in columns], lowest)
    below = np.uint64((1 << lowest) - 1)
    placed = [
        ((columns[source] ^ np.uint64(flip)) & below) | (np.uint64(head) & ~below)
        for head, source, flip in zip(heads, sources, flips, strict=True)
    ]
    for start in range(0, len(placed[0]), _BLOCK_ROWS):
        _turn([axis[start : start + _BLOCK_ROWS] for axis in placed], lowest)
    return placed


def _shared_turns(heads: list[int], lowest: int) -> tuple[list[int], list[int], list[int]]:
    """What the leading bits that all rows share do to the bits below them: exchange axes, and flip them."""
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


def _turn(axes: list[Numbers], bits: int) -> None:
    for bit in reversed(range(1, bits)):
        _turn_below(axes, bit)
    for before, axis in pairwise(axes):
        np.bitwise_xor(axis, before, out=axis)
    odd = axes[-1] >> np.uint64(1)
    for distance in (1, 2, 4, 8, 16, 32):
        odd ^= odd >> np.uint64(distance)
    for axis in axes:
        np.bitwise_xor(axis, odd, out=axis)


def _turn_below(axes: list[Numbers], bit: int) -> None:
    """Where an axis has the bit, flip the first axis below it; elsewhere exchange the two below it."""
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
