"""Which files are worth rewriting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from icepack.domain.actions import Strategy
from icepack.domain.plan.files import DataFile, PartitionKey
from icepack.domain.units import MIB

OVERSIZE_FACTOR = 1.8
"""A file this many times its target is split again; Iceberg's own planner uses the same factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRules:
    """The thresholds of selection, in bytes and counts."""

    target_file_bytes: int
    small_file_bytes: int = 32 * MIB
    max_files_per_partition: int = 1000
    max_delete_ratio: float = 0.1
    min_input_files: int = 5
    delete_file_threshold: int = 1
    rewrite_all: bool = False

    @classmethod
    def by_hand(cls, target_file_bytes: int) -> SelectionRules:
        """Where no policy is asked: as Iceberg's own planner selects."""
        small = nearly_full(target_file_bytes)
        return cls(target_file_bytes=target_file_bytes, small_file_bytes=small, max_delete_ratio=0.0)

    @property
    def effective_small_bytes(self) -> int:
        """Never above three quarters of the target, or a rewrite's own output would count as small."""
        return min(self.small_file_bytes, nearly_full(self.target_file_bytes))

    def small_below(self, files_in_partition: int) -> int:
        """Where there are too many files, all that are not nearly full are small."""
        crowded = files_in_partition > self.max_files_per_partition
        return nearly_full(self.target_file_bytes) if crowded else self.effective_small_bytes


def nearly_full(target_bytes: int) -> int:
    """From this size on, merging a file gains too little; Iceberg's own planner uses the same share."""
    return target_bytes * 3 // 4


def files_needed(total_bytes: int, target_bytes: int) -> int:
    """How many files of the target size hold this much; at least one, if there is anything."""
    return -(-total_bytes // max(target_bytes, 1))


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition that are looked at, or rewritten, together."""

    partition: PartitionKey
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def delete_files(self) -> int:
        return sum(file.delete_files for file in self.files)

    def should_compact(self, rules: SelectionRules) -> bool:
        """Too many files, too small on average, or too many deletes."""
        if not self.files:
            return False
        count = len(self.files)
        if count > rules.max_files_per_partition:
            return True
        if count > 1 and self.bytes / count < rules.effective_small_bytes:
            return True
        return self.delete_files / count > rules.max_delete_ratio


def by_partition(files: Iterable[DataFile]) -> list[FileGroup]:
    """One group per partition, in the partitions' order; within it, the oldest files first."""
    found: dict[PartitionKey, list[DataFile]] = defaultdict(list)
    for file in files:
        found[file.partition].append(file)
    return [
        FileGroup(key, tuple(sorted(members, key=lambda file: (file.sequence_number, file.path))))
        for key, members in sorted(found.items())
    ]


def select_files(group: FileGroup, strategy: Strategy, rules: SelectionRules) -> tuple[DataFile, ...]:
    """The files of a partition that the strategy rewrites; empty when there is too little to gain.

    Files with deletes are always what `delete_files` wants; the other strategies take them along only
    where deletes weigh on the partition.
    """
    if rules.rewrite_all:
        return group.files
    deleted = tuple(file for file in group.files if file.delete_files >= rules.delete_file_threshold)
    if strategy is Strategy.DELETE_FILES:
        return deleted
    if group.delete_files / max(len(group.files), 1) <= rules.max_delete_ratio:
        deleted = ()
    small = [file for file in group.files if file.bytes < rules.small_below(len(group.files))]
    chosen = set(deleted)
    if _merge_gains(small, rules):
        chosen.update(small)
    return tuple(file for file in group.files if file in chosen)


def _merge_gains(small: Sequence[DataFile], rules: SelectionRules) -> bool:
    """Enough of them, and fewer afterwards: what a rewrite cannot reduce would be rewritten for ever."""
    enough = len(small) >= rules.min_input_files or group_overfull(small, rules)
    return enough and len(small) > files_needed(sum(file.bytes for file in small), rules.target_file_bytes)


def group_overfull(small: Sequence[DataFile], rules: SelectionRules) -> bool:
    """A few small files still pay when together they fill a whole target file."""
    return len(small) > 1 and sum(file.bytes for file in small) >= rules.target_file_bytes
