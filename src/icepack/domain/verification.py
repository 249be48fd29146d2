"""Proof by value: which rewritten groups are compared with their inputs, and what the comparison says."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Protocol
from uuid import UUID

from icepack.domain.table import TableId

SAMPLE_SHARE = 0.01
SAMPLE_INTERVAL = timedelta(days=7)


class ProofLevel(StrEnum):
    """How a compaction is proven: row counts only, values of new classes and a sample, or the values of every group."""

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
    """Files that were written alike and are read alike. Trust in the native rewrite is earned class by class."""

    id: str
    description: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDifference:
    """One figure of one column that differs between inputs and outputs, or between a manifest and the rows."""

    column: str
    measure: str
    """`hash_1`, `hash_2`, `nulls`, `nans`, `rows`, or `lower_bound`, `upper_bound`, … of a manifest entry."""
    before: str
    after: str
    file: str = ""
    """The output whose manifest entry is wrong; empty where all files of a side are compared together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A group whose outputs do not have the values of its inputs. Nothing of it was committed."""

    snapshot_id: int
    partition: str
    classes: tuple[FileClass, ...]
    files: tuple[str, ...]
    """The inputs."""
    rows_before: int
    rows_after: int
    differences: tuple[ColumnDifference, ...]
    kernel_version: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(difference.column for difference in self.differences))


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueComparison:
    """Two snapshots of a table, or a group and its rewrite, compared value by value."""

    snapshot_id: int
    against_id: int | None
    """None where a rewrite that was not committed is compared."""
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int
    files_shared: int
    """Files that both snapshots have under the same deletes; they were not read."""
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
    """What a compaction has proven, and how. Part of the run record."""

    level: ProofLevel
    groups: int = 0
    """Groups that were rewritten natively and committed; the rows of each were counted."""
    groups_compared: int = 0
    """Of these: groups whose values were compared before the commit."""
    rows_compared: int = 0
    spark_groups: int = 0
    """Groups that Spark's procedure rewrote."""
    commits_compared: int = 0
    """Commits of Spark's procedure whose values were compared with their parent snapshot."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Compared groups by CheckReason."""
    new_classes: tuple[str, ...] = ()
    """Ids of the classes that earned trust in this run."""
    failures: tuple[NativeFailure, ...] = ()
    mismatch: Mismatch | None = None
    kernel_version: str = ""

    @property
    def total(self) -> int:
        """Groups that were rewritten, natively or by Spark's procedure."""
        return self.groups + self.spark_groups

    @property
    def total_compared(self) -> int:
        """A commit of Spark's procedure is compared as a whole, with all groups in it."""
        return self.groups_compared + (self.spark_groups if self.commits_compared else 0)

    @property
    def sentence(self) -> str:
        """As history, API and page show it: `12 groups, rows counted in all, values compared in 2`."""
        noun = "group" if self.total == 1 else "groups"
        return f"{self.total} {noun}, rows counted in all, values compared in {self.total_compared}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeDisabled:
    """The native rewrite is switched off for a table, after a mismatch or by hand."""

    table: TableId
    table_uuid: str
    disabled_at: datetime
    reason: str
    job_id: UUID | None = None
    mismatch: Mismatch | None = None


class VerificationStore(Protocol):
    """Remembers which classes have earned trust on which table, and where the native rewrite is switched off."""

    def trusted_classes(self, table: TableId, table_uuid: str, kernel_version: str) -> frozenset[str]: ...

    def last_checked_at(self, table: TableId, table_uuid: str) -> datetime | None:
        """When values of this table were last compared and found equal, whatever the kernel version."""
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
        """A group with files of these classes was compared and found equal."""
        ...

    def disable_native(self, entry: NativeDisabled) -> None: ...

    def enable_native(self, table: TableId) -> bool:
        """False when it was not switched off."""
        ...

    def native_disabled(self, table: TableId) -> NativeDisabled | None: ...

    def all_native_disabled(self) -> list[NativeDisabled]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupClasses:
    """A group that is ready to be committed, and the classes of its inputs."""

    number: int
    class_ids: frozenset[str]


def groups_to_compare(
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
    """Group number → why it is compared.

    `seed` makes the sample repeatable for one run and different between runs.
    """
    if level is ProofLevel.COUNT:
        return {}
    if level is ProofLevel.FULL:
        return {group.number: CheckReason.FULL for group in groups}
    chosen: dict[int, CheckReason] = {}
    met: set[str] = set()
    for group in groups:
        if any(number not in trusted and number not in met for number in group.class_ids):
            chosen[group.number] = CheckReason.NEW_CLASS
            met |= group.class_ids
    for group in groups:
        if group.number not in chosen and _fraction(seed, group.number) < share:
            chosen[group.number] = CheckReason.SAMPLE
    is_overdue = last_checked_at is None or now - last_checked_at >= interval
    if groups and not chosen and is_overdue:
        chosen[groups[0].number] = CheckReason.OVERDUE
    return chosen


def _fraction(seed: str, number: int) -> float:
    """A number from 0 to 1 that depends on nothing but its arguments."""
    digest = blake2b(f"{seed}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
