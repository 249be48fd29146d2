"""Which deletes apply to which data files, by Iceberg's rules of scope and sequence number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from icepack.catalog.manifests import DELETION_VECTOR, EQUALITY_DELETES, POSITION_DELETES

Group = tuple[int, str]
"""A spec id and an encoded partition."""


@dataclass(slots=True)
class Applied:
    """The deletes that weigh on one data file."""

    position: int = 0
    equality: int = 0
    vectors: int = 0
    records: int = 0

    @property
    def any(self) -> bool:
        return bool(self.position or self.equality or self.vectors)


@dataclass(slots=True)
class _Sequences:
    numbers: list[int] = field(default_factory=list)

    def from_(self, sequence: int) -> int:
        return len(self.numbers) - bisect_left(self.numbers, sequence)

    def after(self, sequence: int) -> int:
        return len(self.numbers) - bisect_right(self.numbers, sequence)


class DeleteIndex:
    """Position deletes apply to files of the same or an older sequence, equality deletes only to older ones.

    An equality delete in an unpartitioned spec applies to every partition.
    """

    def __init__(self, deletes: pa.Table, unpartitioned_specs: frozenset[int]) -> None:
        self._by_path: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._position: dict[Group, _Sequences] = defaultdict(_Sequences)
        self._equality: dict[Group, _Sequences] = defaultdict(_Sequences)
        self._global = _Sequences()
        self._rows = deletes.to_pylist()
        self._unpartitioned = unpartitioned_specs
        for row in self._rows:
            self._add(row)
        for sequences in (*self._position.values(), *self._equality.values(), self._global):
            sequences.numbers.sort()

    def __bool__(self) -> bool:
        return bool(self._rows)

    def _add(self, row: dict[str, Any]) -> None:
        group = (row["spec_id"], row["partition"])
        if row["referenced"] is not None:
            self._by_path[row["referenced"]].append(row)
        elif row["content"] == EQUALITY_DELETES and row["spec_id"] in self._unpartitioned:
            self._global.numbers.append(row["sequence_number"])
        elif row["content"] == EQUALITY_DELETES:
            self._equality[group].numbers.append(row["sequence_number"])
        else:
            self._position[group].numbers.append(row["sequence_number"])

    def applied(self, path: str, group: Group, sequence: int) -> Applied:
        found = Applied()
        for row in self._by_path.get(path, ()):
            if row["sequence_number"] >= sequence:
                found.vectors += row["content"] == DELETION_VECTOR
                found.position += row["content"] == POSITION_DELETES
                found.records += row["records"]
        if group in self._position:
            found.position += self._position[group].from_(sequence)
        if group in self._equality:
            found.equality += self._equality[group].after(sequence)
        found.equality += self._global.after(sequence)
        return found

    def touches(self, group: Group) -> bool:
        """Whether any delete could apply within the partition; cheap, and never wrong on the safe side."""
        return bool(self._by_path or self._global.numbers) or group in self._position or group in self._equality

    def dangling(self, data: pa.Table) -> int:
        """Delete files that apply to no live data file at all."""
        if not self._rows:
            return 0
        oldest, sequence_of = self._oldest_sequences(data)
        return sum(1 for row in self._rows if self._is_dangling(row, oldest, sequence_of))

    def _oldest_sequences(self, data: pa.Table) -> tuple[dict[Group, int], Mapping[str, int]]:
        grouped = data.group_by(["spec_id", "partition"]).aggregate([("sequence_number", "min")]).to_pylist()
        oldest = {(row["spec_id"], row["partition"]): row["sequence_number_min"] for row in grouped}
        named = data.filter(pa.compute.is_in(data["path"], pa.array(list(self._by_path), pa.string())))
        sequence_of = dict(zip(named["path"].to_pylist(), named["sequence_number"].to_pylist(), strict=True))
        return oldest, sequence_of

    def _is_dangling(self, row: dict[str, Any], oldest: Mapping[Group, int], sequence_of: Mapping[str, int]) -> bool:
        sequence: int = row["sequence_number"]
        if row["referenced"] is not None:
            return sequence_of.get(row["referenced"], sequence + 1) > sequence
        if row["content"] == EQUALITY_DELETES and row["spec_id"] in self._unpartitioned:
            return min(oldest.values(), default=sequence) >= sequence
        lowest = oldest.get((row["spec_id"], row["partition"]))
        if lowest is None:
            return True
        return lowest >= sequence if row["content"] == EQUALITY_DELETES else lowest > sequence
