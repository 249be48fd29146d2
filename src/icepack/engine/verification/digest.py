"""Digests of rows: for each column the nulls, the NaNs and two hashes that do not depend on the order of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from icepack.domain.verification import ColumnDifference

# The name of the hashes over all columns of a row, beside the names of columns.
WHOLE_ROWS = "(whole rows)"
_MODULUS = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDigest:
    # The sum of the 64-bit hashes of the values, modulo 2^64.
    hash_1: int
    # The sum of the squares of these hashes, modulo 2^64.
    hash_2: int
    nulls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The digest of rows, which is equal for the same rows in any order.

    Whole rows are hashed as well, so that a column whose values moved to other rows is detected.
    """

    rows: int = 0
    columns: Mapping[str, ColumnDigest] = field(default_factory=dict)
    nans: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Digest) -> Digest:
        return Digest(
            rows=self.rows + other.rows,
            columns={name: _add_columns(self.columns.get(name), column) for name, column in other.columns.items()},
            nans={name: self.nans.get(name, 0) + count for name, count in other.nans.items()},
        )


def sum_digests(digests: Iterable[Digest]) -> Digest:
    found = Digest()
    for digest in digests:
        found = found + digest
    return found


def _add_columns(one: ColumnDigest | None, other: ColumnDigest) -> ColumnDigest:
    if one is None:
        return other
    return ColumnDigest(
        hash_1=(one.hash_1 + other.hash_1) % _MODULUS,
        hash_2=(one.hash_2 + other.hash_2) % _MODULUS,
        nulls=one.nulls + other.nulls,
    )


def find_differences(before: Digest, after: Digest) -> list[ColumnDifference]:
    """Returns the differences of each column; none if both digests are equal."""
    found = []
    if before.rows != after.rows:
        found.append(_difference(WHOLE_ROWS, "rows", f"{before.rows}", f"{after.rows}"))
    for name in dict.fromkeys([*before.columns, *after.columns]):
        found += _find_column_differences(name, before, after)
    for name in dict.fromkeys([*before.nans, *after.nans]):
        one, other = before.nans.get(name, 0), after.nans.get(name, 0)
        if one != other:
            found.append(_difference(name, "nans", f"{one}", f"{other}"))
    return found


def _find_column_differences(name: str, before: Digest, after: Digest) -> Sequence[ColumnDifference]:
    """A digest without rows may have no columns at all."""
    empty = ColumnDigest(hash_1=0, hash_2=0)
    one, other = before.columns.get(name, empty), after.columns.get(name, empty)
    if one == other:
        return []
    measures = [
        ("nulls", f"{one.nulls}", f"{other.nulls}"),
        ("hash_1", f"{one.hash_1:016x}", f"{other.hash_1:016x}"),
        ("hash_2", f"{one.hash_2:016x}", f"{other.hash_2:016x}"),
    ]
    # Both hashes are reported, so that they can be compared when the check is repeated.
    return [_difference(name, *measure) for measure in measures if measure[0] != "nulls" or measure[1] != measure[2]]


def _difference(column: str, measure: str, before: str, after: str) -> ColumnDifference:
    return ColumnDifference(column=column, measure=measure, before=before, after=after)
