"""Proof by value: which rewritten groups are compared with their inputs, and the results of the comparison."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Protocol
from uuid import UUID

from icepack.domain.table import TableId

# The share of groups that are compared at random, once their file classes are verified.
SAMPLE_SHARE = 0.01
# At least one group is compared per table and interval.
SAMPLE_INTERVAL = timedelta(days=7)


class ProofLevel(StrEnum):
    """How a compaction is verified: by row counts, by values of new file classes and a sample, or by all values."""

    COUNT = "count"
    SAMPLED = "sampled"
    FULL = "full"


class CheckReason(StrEnum):
    """Why a group is compared by value."""

    NEW_CLASS = "new_class"
    SAMPLE = "sample"
    OVERDUE = "overdue"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class FileClass:
    """A class of files that are written and read in the same way; the native rewrite is verified per class."""

    id: str
    description: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """A measure of a column that differs between inputs and outputs, or between a manifest entry and the rows."""

    column: str
    # `hash_1`, `hash_2`, `nulls`, `nans`, `rows`, or `lower_bound`, `upper_bound`, … of a manifest entry.
    measure: str
    before: str
    after: str
    # The output whose manifest entry is wrong; empty if all files of a side are compared together.
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A group whose outputs do not have the same values as its inputs; it was not committed."""

    snapshot_id: int
    partition: str
    classes: tuple[FileClass, ...]
    # The input files.
    files: tuple[str, ...]
    rows_before: int
    rows_after: int
    differences: tuple[ColumnDifference, ...]
    kernel_version: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(difference.column for difference in self.differences))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueComparison:
    """The result of comparing two snapshots of a table, or a group and its rewrite, value by value."""

    snapshot_id: int
    # None if the comparison is with a rewrite that was not committed.
    against_id: int | None
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int
    # Files that both snapshots share, with the same deletes; they were not read.
    files_shared: int
    differences: tuple[ColumnDifference, ...]

    @property
    def is_equal(self) -> bool:
        return not self.differences


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFailure:
    """A group whose native rewrite failed unexpectedly, so that Spark's procedure rewrote it."""

    partition: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueProof:
    """What a compaction verified, and how; part of the run record."""

    level: ProofLevel
    # Groups that were rewritten natively and committed; the rows of each were counted.
    groups: int = 0
    # How many of these had their values compared before the commit.
    groups_compared: int = 0
    rows_compared: int = 0
    # Groups that Spark's procedure rewrote.
    spark_groups: int = 0
    # Commits of Spark's procedure whose values were compared with their parent snapshot.
    commits_compared: int = 0
    # Compared groups by CheckReason.
    reasons: Mapping[str, int] = field(default_factory=dict)
    # Ids of the file classes that were first verified in this run.
    new_classes: tuple[str, ...] = ()
    failures: tuple[NativeFailure, ...] = ()
    mismatch: Mismatch | None = None
    kernel_version: str = ""

    @property
    def total(self) -> int:
        """All rewritten groups, native or by Spark's procedure."""
        return self.groups + self.spark_groups

    @property
    def total_compared(self) -> int:
        """A commit of Spark's procedure is compared as a whole, with all groups in it."""
        return self.groups_compared + (self.spark_groups if self.commits_compared else 0)

    @property
    def sentence(self) -> str:
        """A summary for users: `12 groups, rows counted in all, values compared in 2`."""
        noun = "group" if self.total == 1 else "groups"
        return f"{self.total} {noun}, rows counted in all, values compared in {self.total_compared}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeDisabled:
    """The native rewrite is disabled for a table, after a mismatch or manually."""

    table: TableId
    table_uuid: str
    disabled_at: datetime
    reason: str
    job_id: UUID | None = None
    mismatch: Mismatch | None = None


class VerificationStore(Protocol):
    """Stores which file classes are verified on which table, and where the native rewrite is disabled."""

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]: ...

    def last_checked_at(self, table: TableId, table_uuid: str) -> datetime | None:
        """Returns when values of this table were last compared and equal, with any kernel version."""
        ...

    def record_check(
        self,
        table: TableId,
        table_uuid: str,
        classes: Sequence[FileClass],
        *,
        kernel_version: str,
        rows: int,
        checked_at: datetime,
    ) -> None:
        """Records that a group with files of these classes was compared and equal."""
        ...

    def disable_native(self, entry: NativeDisabled) -> None: ...

    def enable_native(self, table: TableId) -> bool:
        """Returns False if it was not disabled."""
        ...

    def native_disabled(self, table: TableId) -> NativeDisabled | None: ...

    def all_native_disabled(self) -> list[NativeDisabled]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClasses:
    """A group that is ready to be committed, and the file classes of its inputs."""

    number: int
    class_ids: frozenset[str]


def select_groups_to_compare(
    groups: Sequence[GroupClasses],
    *,
    level: ProofLevel,
    trusted: Container[str],
    last_checked_at: datetime | None,
    now: datetime,
    seed: str,
    share: float = SAMPLE_SHARE,
    interval: timedelta = SAMPLE_INTERVAL,
) -> dict[int, CheckReason]:
    """Selects the groups to compare: maps group numbers to reasons.

    `seed` makes the sample reproducible within a run and different between runs.
    """
    if level is ProofLevel.COUNT:
        return {}
    if level is ProofLevel.FULL:
        return {group.number: CheckReason.FULL for group in groups}
    chosen: dict[int, CheckReason] = {}
    seen: set[str] = set()
    for group in groups:
        if any(class_id not in trusted and class_id not in seen for class_id in group.class_ids):
            chosen[group.number] = CheckReason.NEW_CLASS
            seen |= group.class_ids
    for group in groups:
        if group.number not in chosen and _fraction(seed, group.number) < share:
            chosen[group.number] = CheckReason.SAMPLE
    is_overdue = last_checked_at is None or now - last_checked_at >= interval
    if groups and not chosen and is_overdue:
        chosen[groups[0].number] = CheckReason.OVERDUE
    return chosen


def _fraction(seed: str, number: int) -> float:
    """Returns a pseudo-random number from 0 to 1 that depends only on the arguments."""
    digest = blake2b(f"{seed}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
