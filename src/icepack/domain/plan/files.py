"""The input of planning: the live data files of a snapshot, as read from its manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Content(StrEnum):
    DATA = "data"
    POSITION_DELETES = "position_deletes"
    EQUALITY_DELETES = "equality_deletes"
    DELETION_VECTOR = "deletion_vector"


@dataclass(frozen=True, slots=True, order=True)
class PartitionKey:
    """One partition of one partition spec; `path` is its Hive-style text, empty if unpartitioned."""

    spec_id: int
    path: str


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """One field of a partition tuple, from which the engine builds a filter for the partition."""

    source: str
    transform: str
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A live data file and the number of delete files that apply to it."""

    path: str
    partition: PartitionKey
    bytes: int
    records: int
    sequence_number: int
    format: str = "parquet"
    position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    deleted_records: int = 0

    @property
    def delete_files(self) -> int:
        return self.position_delete_files + self.equality_delete_files + self.deletion_vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class FileListing:
    """The live data files of one snapshot and the partitions that they belong to."""

    snapshot_id: int | None
    files: tuple[DataFile, ...]
    partition_ends: Mapping[PartitionKey, datetime] = field(default_factory=dict)
    partition_values: Mapping[PartitionKey, tuple[PartitionValue, ...]] = field(default_factory=dict)
