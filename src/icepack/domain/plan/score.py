"""Scores how urgently a partition needs compaction, from 0 (not at all) to 1 (most urgent)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from icepack.domain.status import PartitionStatus

FILE_COUNT_WEIGHT = 0.3
FRAGMENT_WEIGHT = 0.3
AGE_WEIGHT = 0.2
SMALL_FILE_WEIGHT = 0.2

# A component reaches its full weight at this number of files, or hours since the last compaction.
FULL_FILE_COUNT = 100
FULL_AGE_HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScore:
    """The four weighted components of the score."""

    file_count: float
    fragment: float
    age: float
    small_files: float

    @property
    def total(self) -> float:
        return self.file_count + self.fragment + self.age + self.small_files


def compute_fragment_ratio(data_files: int, delete_files: int) -> float:
    """Delete files per data file."""
    return delete_files / max(data_files, 1)


def score_partition(partition: PartitionStatus, now: datetime) -> PartitionScore:
    """Scores by file count, delete files per data file, time since the last compaction and share of small files.

    Every component is capped, so that the total stays between 0 and 1.
    """
    return PartitionScore(
        file_count=min(partition.data_files / FULL_FILE_COUNT, 1.0) * FILE_COUNT_WEIGHT,
        fragment=min(compute_fragment_ratio(partition.data_files, partition.delete_files), 1.0) * FRAGMENT_WEIGHT,
        age=_compute_age_share(partition, now) * AGE_WEIGHT,
        small_files=min(partition.small_files / max(partition.data_files, 1), 1.0) * SMALL_FILE_WEIGHT,
    )


def _compute_age_share(partition: PartitionStatus, now: datetime) -> float:
    """A partition that was never compacted counts as overdue."""
    if partition.last_compacted_at is None:
        return 1.0 if partition.data_files else 0.0
    hours = (now - partition.last_compacted_at).total_seconds() / 3600
    return min(max(hours, 0.0) / FULL_AGE_HOURS, 1.0)
