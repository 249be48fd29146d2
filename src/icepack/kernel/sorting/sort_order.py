"""In which order a compaction lays down its rows: as Spark would sort them, or along a curve as Iceberg would."""

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

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.sorting.curves import (
    WORD_BITS,
    Numbers,
    Rows,
    Word,
    curve_numbers,
    eight_bytes,
    hilbert,
    interleaved,
    is_bytes,
    ordered,
    raw,
    spans,
)

Kind = Literal["sort", "zorder", "hilbert"]

_ON_CURVES = "boolean|int|long|float|double|date|timestamp|timestamptz|string|uuid|fixed\\[\\d+\\]|binary"
_SORTABLE: dict[Kind, re.Pattern[str]] = {
    "sort": re.compile(rf"{_ON_CURVES}|decimal\(\d+,\s*\d+\)|time|timestamp_ns|timestamptz_ns"),
    "zorder": re.compile(_ON_CURVES),
    "hilbert": re.compile(_ON_CURVES),
}
_LONG_DIGITS = 18
_INDEX_BITS = 32
_NARROW_OFFSETS_END = 1 << 31
_PREFIX_WORDS = 8
_WORTHWHILE_BITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKey:
    """A column to sort by; on a curve its direction and the place of its nulls mean nothing."""

    field_id: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    kind: Kind
    keys: tuple[SortKey, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "keys": [asdict(key) for key in self.keys]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Order:
        return cls(kind=plain["kind"], keys=tuple(SortKey(**key) for key in plain["keys"]))


def is_sortable(iceberg_type: str, kind: Kind = "sort") -> bool:
    """Whether rows can be ordered by a column of this type; curves take the types that Iceberg's take."""
    return _SORTABLE[kind].fullmatch(iceberg_type) is not None


def permutation(columns: Sequence[pa.ChunkedArray | pa.Array], order: Order) -> Rows:
    """The rows in output order; those that the order calls equal stay as they came."""
    arrays = [_flat(column) for column in columns]
    return _sorted_rows(_words(arrays, order), len(arrays[0]) if arrays else 0)[0]


def _words(arrays: Sequence[pa.Array], order: Order) -> Iterable[Word]:
    if order.kind == "sort":
        pairs = zip(arrays, order.keys, strict=True)
        return chain.from_iterable(_key_words(array, key) for array, key in pairs)
    numbers = [curve_numbers(array) for array in arrays]
    return interleaved(hilbert(numbers) if order.kind == "hilbert" else numbers)


def _flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return _plain(column)
    shared = _with_one_dictionary(column) if pa.types.is_dictionary(column.type) else _roomy(column)
    return _plain(shared.combine_chunks())


def _with_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decoded where Arrow cannot merge the dictionaries: it knows no extension types."""
    value_type = column.type.value_type
    if isinstance(value_type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.dictionary.take(chunk.indices) for chunk in column.chunks], value_type)
    if column.type.index_type.bit_width < _INDEX_BITS:
        column = pa.chunked_array(
            [_indexed_widely(chunk) for chunk in column.chunks], pa.dictionary(pa.int32(), value_type)
        )
    return column.unify_dictionaries()


def _indexed_widely(array: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary)


def _roomy(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """With offsets of 64 bits, where 32 might not reach across all the chunks."""
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
    return column.cast(wide) if wide is not None and column.nbytes >= _NARROW_OFFSETS_END else column


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _key_words(array: pa.Array, key: SortKey) -> Iterator[Word]:
    known = _ranked(array) if pa.types.is_dictionary(array.type) else array
    words = _value_words(known)
    if known.null_count:
        valid = known.is_valid().to_numpy(zero_copy_only=False)
        yield _of_array(valid if key.nulls_first else ~valid, _unsigned)
        words = (_nulls_alike(word, valid) for word in words)
    yield from (map(_reversed, words) if key.descending else words)


def _ranked(array: pa.Array) -> pa.Array:
    """A dictionary column with each value's rank in place of its index."""
    ascending = SortKey(field_id=0, descending=False, nulls_first=True)
    values = array.dictionary
    rows, starts = _sorted_rows(_key_words(_plain(values), ascending), len(values))
    ranks = np.empty(len(values), np.int32)
    ranks[rows] = np.cumsum(starts)
    return pa.array(ranks, mask=_null_mask(values)).take(array.indices)


def _null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _value_words(array: pa.Array) -> Iterator[Word]:
    kind = array.type.storage_type if isinstance(array.type, pa.BaseExtensionType) else array.type
    if pa.types.is_null(kind):
        return iter(())
    if is_bytes(kind):
        return _byte_words(array.storage if kind != array.type else array)
    if pa.types.is_decimal(kind):
        return _decimal_words(array)
    if pa.types.is_floating(kind):
        return iter([_of_array(raw(array), _spark_float)])
    if pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind) or pa.types.is_temporal(kind):
        return iter([_of_array(raw(array), ordered)])
    raise Uncovered(f"sorting by columns of type {kind}")


def _spark_float(values: npt.NDArray[Any]) -> Numbers:
    """Spark holds the two zeros for equal, and adding one makes them so."""
    with np.errstate(invalid="ignore"):
        return ordered(values + values.dtype.type(0))


def _unsigned(values: npt.NDArray[Any]) -> Numbers:
    return values.astype(np.uint64)


def _decimal_words(array: pa.Array) -> Iterator[Word]:
    wide = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    halves = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    if array.type.precision <= _LONG_DIGITS:
        yield _of_array(halves[:, 0], ordered)
    else:
        yield _of_array(halves[:, 1], ordered)
        yield _of_array(halves[:, 0].view(np.uint64), _unsigned)


def _byte_words(array: pa.Array) -> Iterator[Word]:
    """Eight bytes at a time; what is equal for long is ranked by comparing it whole."""
    data, starts, lengths = spans(array)
    words = -(-int(lengths.max(initial=0)) // 8)
    for at in range(min(words, _PREFIX_WORDS)):
        yield _bytes_from(data, starts, lengths, 8 * at)
    yield _of_array(lengths, _unsigned) if words <= _PREFIX_WORDS else _whole_rank(array)


def _bytes_from(data: npt.NDArray[np.uint8], starts: Rows, lengths: Rows, skipped: int) -> Word:
    def word(rows: Rows | None) -> Numbers:
        chosen = slice(None) if rows is None else rows
        return eight_bytes(data, starts[chosen] + skipped, lengths[chosen] - skipped)

    return word


def _whole_rank(array: pa.Array) -> Word:
    def word(rows: Rows | None) -> Numbers:
        chosen = array if rows is None else array.take(pa.array(rows))
        return _unsigned(pc.rank(chosen, "ascending", tiebreaker="dense").to_numpy())

    return word


def _of_array(values: npt.NDArray[Any], encoded: Callable[[npt.NDArray[Any]], Numbers]) -> Word:
    return lambda rows: encoded(values if rows is None else values[rows])


def _nulls_alike(word: Word, valid: npt.NDArray[np.bool_]) -> Word:
    """With the number of some value in place of each null, so that nulls take no room of their own."""

    def filled(rows: Rows | None) -> Numbers:
        known, numbers = valid if rows is None else valid[rows], word(rows)
        numbers[~known] = numbers[np.argmax(known)]
        return numbers

    return filled


def _reversed(word: Word) -> Word:
    return lambda rows: ~word(rows)


def _sorted_rows(words: Iterable[Word], count: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Rows ordered by the words, the first weighing most, and whether each row differs from the one before it.

    Leading bits and the row's place are packed into one integer and sorted as such, which is several times faster
    than the stable sorts of NumPy and Arrow; what follows is looked at only for rows that are still equal.
    """
    kind: type[np.signedinteger[Any]] = np.int32 if count < _NARROW_OFFSETS_END else np.int64
    rows: Rows = np.arange(count, dtype=kind)
    places, starts, groups = rows, rows == 0, np.zeros(1, kind)
    pending, chosen, tied = iter(words), None, count if count > 1 else 0
    while tied:
        digit, bits, pending = _digit(pending, chosen, WORD_BITS - _bits(tied - 1) - _bits(groups[-1]))
        if digit is None:
            break
        step, fresh = _stable_sort(digit, bits, groups, kind)
        if chosen is None:
            rows, starts = step, fresh
        else:
            rows[places], starts[places] = chosen[step], fresh
        is_tied = ~(fresh & np.append(fresh[1:], True))
        places, groups = places[is_tied], np.cumsum(fresh[is_tied], dtype=kind) - 1
        chosen, tied = rows[places], places.size
    return rows, starts


def _digit(pending: Iterator[Word], rows: Rows | None, room: int) -> tuple[Numbers | None, int, Iterator[Word]]:
    """As many leading bits of the words as there is room for, and the words that are left."""
    digit, bits = None, 0
    for word in pending:
        numbers = word(rows)
        lowest = numbers.min()
        numbers -= lowest
        width = _bits(numbers.max())
        over = max(0, bits + width - room)
        if over:
            pending = chain([_last_bits(word, lowest, over)], pending)
            numbers >>= np.uint64(over)
        if width:
            digit = numbers if digit is None else _appended(digit, numbers, width - over)
        bits += width - over
        if bits and room - bits < _WORTHWHILE_BITS:
            break
    return digit, bits, pending


def _appended(digit: Numbers, numbers: Numbers, width: int) -> Numbers:
    digit <<= np.uint64(width)
    digit |= numbers
    return digit


def _last_bits(word: Word, lowest: np.uint64, count: int) -> Word:
    return lambda rows: (word(rows) - lowest) & np.uint64((1 << count) - 1)


def _stable_sort(
    digit: Numbers, bits: int, groups: Rows, kind: type[np.signedinteger[Any]]
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Where each row of the sorted groups was, and whether it differs from the one before it; the digit is used up."""
    place_bits = _bits(digit.size - 1)
    digit <<= np.uint64(place_bits)
    digit |= np.arange(digit.size, dtype=np.uint64)
    if groups[-1]:
        digit |= groups.astype(np.uint64) << np.uint64(place_bits + bits)
    digit.sort()
    step = (digit & np.uint64((1 << place_bits) - 1)).astype(kind)
    digit >>= np.uint64(place_bits)
    return step, np.append(True, digit[1:] != digit[:-1])


def _bits(number: Any) -> int:
    return int(number).bit_length()
