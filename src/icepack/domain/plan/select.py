"""Selects the files that are worth rewriting."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from icepack.domain.actions import Strategy
from icepack.domain.plan.files import DataFile, PartitionKey
from icepack.domain.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionRules:
    """The thresholds of file selection."""

    target_file_bytes: int
    small_file_bytes: int = 32 * MIB
    max_files_per_partition: int = 1000
    max_delete_ratio: float = 0.1
    min_input_files: int = 5
    delete_file_threshold: int = 1
    rewrite_all: bool = False

    @classmethod
    def iceberg_defaults(cls, target_file_bytes: int) -> SelectionRules:
        """Returns the rules of Iceberg's own planner, for compactions without a policy."""
        small = compute_nearly_full_bytes(target_file_bytes)
        return cls(target_file_bytes=target_file_bytes, small_file_bytes=small, max_delete_ratio=0.0)

    @property
    def effective_small_bytes(self) -> int:
        """At most three quarters of the target; otherwise the output of a rewrite could count as small."""
        return min(self.small_file_bytes, compute_nearly_full_bytes(self.target_file_bytes))

    def small_file_limit(self, files_in_partition: int) -> int:
        """Returns the size below which a file is small; in a partition with too many files, up to nearly full files."""
        crowded = files_in_partition > self.max_files_per_partition
        return compute_nearly_full_bytes(self.target_file_bytes) if crowded else self.effective_small_bytes


def compute_nearly_full_bytes(target_bytes: int) -> int:
    """Returns the size from which merging a file gains too little; Iceberg's own planner uses the same share."""
    return target_bytes * 3 // 4


def count_files_needed(total_bytes: int, target_bytes: int) -> int:
    """Counts the files of the target size that hold this many bytes, rounded up."""
    return -(-total_bytes // max(target_bytes, 1))


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition that are considered or rewritten together."""

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
        """Whether the group has too many small files or too many delete files.

        Small files are counted instead of comparing the average file size with the threshold: a few large files would
        hide many small ones in the average.
        """
        return self.has_too_many_small_files(rules) or self.has_too_many_deletes(rules)

    def has_too_many_small_files(self, rules: SelectionRules) -> bool:
        """Whether there are enough small files and merging leaves fewer; otherwise they would be rewritten forever."""
        small = self.find_small_files(rules)
        enough = len(small) >= rules.min_input_files or fills_target_file(small, rules)
        return enough and len(small) > count_files_needed(_sum_bytes(small), rules.target_file_bytes)

    def has_too_many_deletes(self, rules: SelectionRules) -> bool:
        return self.delete_files / max(len(self.files), 1) > rules.max_delete_ratio

    def find_small_files(self, rules: SelectionRules) -> tuple[DataFile, ...]:
        limit = rules.small_file_limit(len(self.files))
        return tuple(file for file in self.files if file.bytes < limit)


def group_by_partition(files: Iterable[DataFile]) -> list[FileGroup]:
    """Returns one group per partition, sorted by partition; within a group, the oldest files come first."""
    found: dict[PartitionKey, list[DataFile]] = defaultdict(list)
    for file in files:
        found[file.partition].append(file)
    return [
        FileGroup(key, tuple(sorted(members, key=lambda file: (file.sequence_number, file.path))))
        for key, members in sorted(found.items())
    ]


def select_files(group: FileGroup, strategy: Strategy, rules: SelectionRules) -> tuple[DataFile, ...]:
    """Selects the files of a partition that the strategy rewrites; none if there is too little to gain.

    `delete_files` selects every file with enough deletes; the other strategies include these files only if the
    partition has too many deletes.
    """
    if rules.rewrite_all:
        return group.files
    if strategy is Strategy.DELETE_FILES:
        return _find_files_with_deletes(group, rules)
    if not group.should_compact(rules):
        return ()
    chosen: set[DataFile] = set()
    if group.has_too_many_deletes(rules):
        chosen.update(_find_files_with_deletes(group, rules))
    if group.has_too_many_small_files(rules):
        chosen.update(group.find_small_files(rules))
    return tuple(file for file in group.files if file in chosen)


def _find_files_with_deletes(group: FileGroup, rules: SelectionRules) -> tuple[DataFile, ...]:
    return tuple(file for file in group.files if file.delete_files >= rules.delete_file_threshold)


def fills_target_file(small: Sequence[DataFile], rules: SelectionRules) -> bool:
    """Whether a few small files are worth merging, because together they fill a whole target file."""
    return len(small) > 1 and _sum_bytes(small) >= rules.target_file_bytes


def _sum_bytes(files: Iterable[DataFile]) -> int:
    return sum(file.bytes for file in files)
