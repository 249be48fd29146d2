"""Sorts rows: in Spark's order of the columns, or along Iceberg's Z-order or Hilbert curve."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.sorting.curves import (
    WORD_BITS,
    KeyWord,
    RowNumbers,
    UnsignedArray,
    get_byte_spans,
    interleave_bits,
    is_bytes,
    pack_leading_bytes,
    to_curve_values,
    to_ordered,
    to_raw_values,
    transform_hilbert,
)

SortKind = Literal["sort", "zorder", "hilbert"]

_CURVE_TYPES = "boolean|int|long|float|double|date|timestamp|timestamptz|string|uuid|fixed\\[\\d+\\]|binary"
_SORTABLE_TYPES: dict[SortKind, re.Pattern[str]] = {
    "sort": re.compile(rf"{_CURVE_TYPES}|decimal\(\d+,\s*\d+\)|time|timestamp_ns|timestamptz_ns"),
    "zorder": re.compile(_CURVE_TYPES),
    "hilbert": re.compile(_CURVE_TYPES),
}
# Maximum precision of a decimal that fits into 64 bits.
_MAX_LONG_DIGITS = 18
_INDEX_BITS = 32
_MAX_INT32_OFFSET = 1 << 31
# After this many words of a string or binary value the rest is compared as a whole.
_MAX_PREFIX_WORDS = 8
# Fewer free bits than this are not filled with part of another word.
_MIN_DIGIT_BITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """A column to sort by. Curves ignore the direction and the position of nulls."""

    field_id: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    kind: SortKind
    keys: tuple[SortKey, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "keys": [asdict(key) for key in self.keys]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SortOrder:
        return cls(kind=data["kind"], keys=tuple(SortKey(**key) for key in data["keys"]))


def is_sortable(iceberg_type: str, kind: SortKind = "sort") -> bool:
    """Whether rows can be ordered by a column of this type; curves support the types that Iceberg supports."""
    return _SORTABLE_TYPES[kind].fullmatch(iceberg_type) is not None


def compute_permutation(columns: Sequence[pa.ChunkedArray | pa.Array], order: SortOrder) -> RowNumbers:
    """Returns the row numbers in output order. The sort is stable."""
    arrays = [_combine_chunks(column) for column in columns]
    return _sort_rows(_build_words(arrays, order), len(arrays[0]) if arrays else 0)[0]


def _build_words(arrays: Sequence[pa.Array], order: SortOrder) -> Iterable[KeyWord]:
    if order.kind == "sort":
        pairs = zip(arrays, order.keys, strict=True)
        return chain.from_iterable(_build_key_words(array, key) for array, key in pairs)
    values = [to_curve_values(array) for array in arrays]
    return interleave_bits(transform_hilbert(values) if order.kind == "hilbert" else values)


def _combine_chunks(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return _cast_view(column)
    is_dictionary = pa.types.is_dictionary(column.type)
    combinable = _unify_dictionaries(column) if is_dictionary else _widen_offsets(column)
    return _cast_view(combinable.combine_chunks())


def _unify_dictionaries(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decodes the dictionaries of extension types, which Arrow cannot unify."""
    value_type = column.type.value_type
    if isinstance(value_type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.dictionary.take(chunk.indices) for chunk in column.chunks], value_type)
    if column.type.index_type.bit_width < _INDEX_BITS:
        column = pa.chunked_array(
            [_widen_indices(chunk) for chunk in column.chunks], pa.dictionary(pa.int32(), value_type)
        )
    return column.unify_dictionaries()


def _widen_indices(array: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary)


def _widen_offsets(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Casts to 64-bit offsets if 32 bits might not be enough for all chunks together."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
    return column.cast(wide) if wide is not None and column.nbytes >= _MAX_INT32_OFFSET else column


def _cast_view(array: pa.Array) -> pa.Array:
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _build_key_words(array: pa.Array, key: SortKey) -> Iterator[KeyWord]:
    values = _rank_dictionary(array) if pa.types.is_dictionary(array.type) else array
    words = _build_value_words(values)
    if values.null_count:
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        yield _build_word(is_valid if key.nulls_first else ~is_valid, _to_unsigned)
        words = (_fill_nulls(word, is_valid) for word in words)
    yield from (map(_reverse, words) if key.descending else words)


def _rank_dictionary(array: pa.Array) -> pa.Array:
    """Returns a dictionary column with each value's rank in place of its index."""
    ascending = SortKey(field_id=0, descending=False, nulls_first=True)
    values = array.dictionary
    rows, starts = _sort_rows(_build_key_words(_cast_view(values), ascending), len(values))
    ranks = np.empty(len(values), np.int32)
    ranks[rows] = np.cumsum(starts)
    return pa.array(ranks, mask=_build_null_mask(values)).take(array.indices)


def _build_null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _build_value_words(array: pa.Array) -> Iterator[KeyWord]:
    data_type = array.type.storage_type if isinstance(array.type, pa.BaseExtensionType) else array.type
    if pa.types.is_null(data_type):
        return iter(())
    if is_bytes(data_type):
        return _build_byte_words(array.storage if data_type != array.type else array)
    if pa.types.is_decimal(data_type):
        return _build_decimal_words(array)
    if pa.types.is_floating(data_type):
        return iter([_build_word(to_raw_values(array), _to_ordered_float)])
    if pa.types.is_boolean(data_type) or pa.types.is_signed_integer(data_type) or pa.types.is_temporal(data_type):
        return iter([_build_word(to_raw_values(array), to_ordered)])
    raise UnsupportedByKernel(f"sorting by columns of type {data_type}")


def _to_ordered_float(values: npt.NDArray[Any]) -> UnsignedArray:
    """Orders as Spark does, which treats both zeros as equal; adding a zero makes them so."""
    with np.errstate(invalid="ignore"):
        return to_ordered(values + values.dtype.type(0))


def _to_unsigned(values: npt.NDArray[Any]) -> UnsignedArray:
    return values.astype(np.uint64)


def _build_decimal_words(array: pa.Array) -> Iterator[KeyWord]:
    wide = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    halves = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    if array.type.precision <= _MAX_LONG_DIGITS:
        yield _build_word(halves[:, 0], to_ordered)
    else:
        yield _build_word(halves[:, 1], to_ordered)
        yield _build_word(halves[:, 0].view(np.uint64), _to_unsigned)


def _build_byte_words(array: pa.Array) -> Iterator[KeyWord]:
    """Compares eight bytes at a time; values with a long common prefix are ranked as a whole."""
    data, starts, lengths = get_byte_spans(array)
    words = -(-int(lengths.max(initial=0)) // 8)
    for at in range(min(words, _MAX_PREFIX_WORDS)):
        yield _build_byte_word(data, starts, lengths, 8 * at)
    yield _build_word(lengths, _to_unsigned) if words <= _MAX_PREFIX_WORDS else _build_rank_word(array)


def _build_byte_word(data: npt.NDArray[np.uint8], starts: RowNumbers, lengths: RowNumbers, skipped: int) -> KeyWord:
    def compute_word(rows: RowNumbers | None) -> UnsignedArray:
        chosen = slice(None) if rows is None else rows
        return pack_leading_bytes(data, starts[chosen] + skipped, lengths[chosen] - skipped)

    return compute_word


def _build_rank_word(array: pa.Array) -> KeyWord:
    def compute_word(rows: RowNumbers | None) -> UnsignedArray:
        chosen = array if rows is None else array.take(pa.array(rows))
        return _to_unsigned(pc.rank(chosen, "ascending", tiebreaker="dense").to_numpy())

    return compute_word


def _build_word(values: npt.NDArray[Any], encode: Callable[[npt.NDArray[Any]], UnsignedArray]) -> KeyWord:
    return lambda rows: encode(values if rows is None else values[rows])


def _fill_nulls(word: KeyWord, is_valid: npt.NDArray[np.bool_]) -> KeyWord:
    """Gives nulls the number of some other value, so that they add no bits."""

    def compute_word(rows: RowNumbers | None) -> UnsignedArray:
        valid, numbers = is_valid if rows is None else is_valid[rows], word(rows)
        numbers[~valid] = numbers[np.argmax(valid)]
        return numbers

    return compute_word


def _reverse(word: KeyWord) -> KeyWord:
    return lambda rows: ~word(rows)


def _sort_rows(words: Iterable[KeyWord], count: int) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
    """Returns rows ordered by the words, the first one most significant, and whether each differs from the one before.

    Leading bits and the row's position are packed into one integer and sorted as such, which is several times faster
    than the stable sorts of NumPy and Arrow; the following bits are computed only for rows that are still equal.
    """
    dtype: type[np.signedinteger[Any]] = np.int32 if count < _MAX_INT32_OFFSET else np.int64
    rows: RowNumbers = np.arange(count, dtype=dtype)
    places, starts, groups = rows, rows == 0, np.zeros(1, dtype)
    pending, chosen, tied = iter(words), None, count if count > 1 else 0
    while tied:
        digit, bits, pending = _take_digit(pending, chosen, WORD_BITS - _count_bits(tied - 1) - _count_bits(groups[-1]))
        if digit is None:
            break
        order, is_new = _sort_digit(digit, bits, groups, dtype)
        if chosen is None:
            rows, starts = order, is_new
        else:
            rows[places], starts[places] = chosen[order], is_new
        is_tied = ~(is_new & np.append(is_new[1:], True))
        places, groups = places[is_tied], np.cumsum(is_new[is_tied], dtype=dtype) - 1
        chosen, tied = rows[places], places.size
    return rows, starts


def _take_digit(
    pending: Iterator[KeyWord], rows: RowNumbers | None, room: int
) -> tuple[UnsignedArray | None, int, Iterator[KeyWord]]:
    """Returns as many leading bits of the words as there is room for, their number, and the remaining words."""
    digit, bits = None, 0
    for word in pending:
        numbers = word(rows)
        lowest = numbers.min()
        numbers -= lowest
        width = _count_bits(numbers.max())
        excess = max(0, bits + width - room)
        if excess:
            pending = chain([_keep_last_bits(word, lowest, excess)], pending)
            numbers >>= np.uint64(excess)
        if width:
            digit = numbers if digit is None else _append_bits(digit, numbers, width - excess)
        bits += width - excess
        if bits and room - bits < _MIN_DIGIT_BITS:
            break
    return digit, bits, pending


def _append_bits(digit: UnsignedArray, numbers: UnsignedArray, width: int) -> UnsignedArray:
    digit <<= np.uint64(width)
    digit |= numbers
    return digit


def _keep_last_bits(word: KeyWord, lowest: np.uint64, count: int) -> KeyWord:
    return lambda rows: (word(rows) - lowest) & np.uint64((1 << count) - 1)


def _sort_digit(
    digit: UnsignedArray, bits: int, groups: RowNumbers, dtype: type[np.signedinteger[Any]]
) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
    """Returns the order of the rows within their groups, and whether each differs from the one before.

    Overwrites the digit.
    """
    position_bits = _count_bits(digit.size - 1)
    digit <<= np.uint64(position_bits)
    digit |= np.arange(digit.size, dtype=np.uint64)
    if groups[-1]:
        digit |= groups.astype(np.uint64) << np.uint64(position_bits + bits)
    digit.sort()
    order = (digit & np.uint64((1 << position_bits) - 1)).astype(dtype)
    digit >>= np.uint64(position_bits)
    return order, np.append(True, digit[1:] != digit[:-1])


def _count_bits(number: Any) -> int:
    return int(number).bit_length()
