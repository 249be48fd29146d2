"""Determines which deletes apply to which data files, by Iceberg's rules of scope and sequence number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from icepack.catalog.manifests import DELETION_VECTOR, EQUALITY_DELETES, POSITION_DELETES

# A partition as (spec id, encoded partition tuple); see `manifests.encode_partition`.
EncodedPartition = tuple[int, str]


@dataclass(slots=True)
class AppliedDeletes:
    """The number of deletes of each kind that apply to one data file."""

    position: int = 0
    equality: int = 0
    vectors: int = 0
    records: int = 0

    @property
    def any(self) -> bool:
        return bool(self.position or self.equality or self.vectors)


@dataclass(slots=True)
class _SequenceNumbers:
    numbers: list[int] = field(default_factory=list)

    def count_from(self, sequence: int) -> int:
        return len(self.numbers) - bisect_left(self.numbers, sequence)

    def count_after(self, sequence: int) -> int:
        return len(self.numbers) - bisect_right(self.numbers, sequence)


class DeleteIndex:
    """Finds the deletes that apply to a data file.

    Position deletes apply to data files with the same or an older sequence number, equality deletes only to data files
    with an older one. An equality delete in an unpartitioned spec applies to every partition.
    """

    def __init__(self, deletes: pa.Table, unpartitioned_specs: frozenset[int]) -> None:
        self._by_path: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._position: dict[EncodedPartition, _SequenceNumbers] = defaultdict(_SequenceNumbers)
        self._equality: dict[EncodedPartition, _SequenceNumbers] = defaultdict(_SequenceNumbers)
        self._global_equality = _SequenceNumbers()
        self._rows = deletes.to_pylist()
        self._unpartitioned = unpartitioned_specs
        for row in self._rows:
            self._add(row)
        for sequences in (*self._position.values(), *self._equality.values(), self._global_equality):
            sequences.numbers.sort()

    def __bool__(self) -> bool:
        return bool(self._rows)

    def _add(self, row: dict[str, Any]) -> None:
        partition = (row["spec_id"], row["partition"])
        if row["referenced"] is not None:
            self._by_path[row["referenced"]].append(row)
        elif row["content"] == EQUALITY_DELETES and row["spec_id"] in self._unpartitioned:
            self._global_equality.numbers.append(row["sequence_number"])
        elif row["content"] == EQUALITY_DELETES:
            self._equality[partition].numbers.append(row["sequence_number"])
        else:
            self._position[partition].numbers.append(row["sequence_number"])

    def applied_to(self, path: str, partition: EncodedPartition, sequence: int) -> AppliedDeletes:
        found = AppliedDeletes()
        for row in self._by_path.get(path, ()):
            if row["sequence_number"] >= sequence:
                found.vectors += row["content"] == DELETION_VECTOR
                found.position += row["content"] == POSITION_DELETES
                found.records += row["records"]
        if partition in self._position:
            found.position += self._position[partition].count_from(sequence)
        if partition in self._equality:
            found.equality += self._equality[partition].count_after(sequence)
        found.equality += self._global_equality.count_after(sequence)
        return found

    def may_apply_to(self, partition: EncodedPartition) -> bool:
        """Cheap check for any delete that could apply within the partition; may return True when none does."""
        return (
            bool(self._by_path or self._global_equality.numbers)
            or partition in self._position
            or partition in self._equality
        )

    def count_dangling(self, data: pa.Table) -> int:
        """Counts the delete files that apply to no live data file."""
        if not self._rows:
            return 0
        oldest, sequence_by_path = self._oldest_sequences(data)
        return sum(1 for row in self._rows if self._is_dangling(row, oldest, sequence_by_path))

    def _oldest_sequences(self, data: pa.Table) -> tuple[dict[EncodedPartition, int], Mapping[str, int]]:
        grouped = data.group_by(["spec_id", "partition"]).aggregate([("sequence_number", "min")]).to_pylist()
        oldest = {(row["spec_id"], row["partition"]): row["sequence_number_min"] for row in grouped}
        referenced = data.filter(pa.compute.is_in(data["path"], pa.array(list(self._by_path), pa.string())))
        sequence_numbers = referenced["sequence_number"].to_pylist()
        return oldest, dict(zip(referenced["path"].to_pylist(), sequence_numbers, strict=True))

    def _is_dangling(
        self, row: dict[str, Any], oldest: Mapping[EncodedPartition, int], sequence_by_path: Mapping[str, int]
    ) -> bool:
        sequence: int = row["sequence_number"]
        if row["referenced"] is not None:
            return sequence_by_path.get(row["referenced"], sequence + 1) > sequence
        if row["content"] == EQUALITY_DELETES and row["spec_id"] in self._unpartitioned:
            return min(oldest.values(), default=sequence) >= sequence
        lowest = oldest.get((row["spec_id"], row["partition"]))
        if lowest is None:
            return True
        return lowest >= sequence if row["content"] == EQUALITY_DELETES else lowest > sequence
