"""HealthReport: a score from 0 to 100 and the issues behind it.

Measured against the table's own properties and the fixed values published here, never against a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median

from icepack.domain.plan.expiry import expired_snapshots
from icepack.domain.plan.score import fragment_ratio
from icepack.domain.plan.select import files_needed
from icepack.domain.status import PartitionStatus, TableStatus, own_number
from icepack.domain.table import TableId
from icepack.domain.units import MIB, format_duration, format_size, from_milliseconds

HEALTH_VERSION = 1

MIN_SMALL_FILES = 5
"""Fewer in a partition are left to grow, as Iceberg's own planner does, unless they fill a whole file."""
EXCESS_FILES_AT_FULL_PENALTY = 50
DELETE_RATIO_LIMIT = 0.1
DELETE_ROW_SHARE_LIMIT = 0.05
SNAPSHOT_COUNT_LIMIT = 100
SNAPSHOT_AGE_LIMIT = timedelta(days=7)
MANIFEST_COUNT_FLOOR = 10
METADATA_BYTES_LIMIT = 8 * MIB
METADATA_LOG_LIMIT = 100
SKEW_LIMIT = 10.0
STALE_AFTER = timedelta(days=7)


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class IssueCode(StrEnum):
    SMALL_FILES = "small_files"
    DELETE_PRESSURE = "delete_pressure"
    DANGLING_DELETES = "dangling_deletes"
    TOO_MANY_SNAPSHOTS = "too_many_snapshots"
    SNAPSHOTS_PAST_RETENTION = "snapshots_past_retention"
    FRAGMENTED_MANIFESTS = "fragmented_manifests"
    OVERSIZED_MANIFESTS = "oversized_manifests"
    METADATA_BLOAT = "metadata_bloat"
    SKEWED_PARTITIONS = "skewed_partitions"
    STALE_COMPACTION = "stale_compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    code: IssueCode
    severity: Severity
    penalty: float
    sentence: str
    evidence: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    table: TableId
    snapshot_id: int | None
    assessed_at: datetime
    score: int
    issues: tuple[Issue, ...]
    version: int = HEALTH_VERSION

    def has(self, code: IssueCode) -> bool:
        return any(issue.code is code for issue in self.issues)


def assess(status: TableStatus, now: datetime) -> HealthReport:
    """All issues, worst first, and what is left of 100 points after their penalties."""
    issues = sorted(
        (issue for check in _CHECKS for issue in check(status, now)),
        key=lambda issue: (-issue.penalty, issue.code),
    )
    score = max(0, round(100 - sum(issue.penalty for issue in issues)))
    return HealthReport(
        table=status.table, snapshot_id=status.snapshot_id, assessed_at=now, score=score, issues=tuple(issues)
    )


def excess_files(partition: PartitionStatus, target_bytes: int) -> int:
    """Small files beyond what their bytes need: a lone small file is none too many."""
    return max(partition.small_files - files_needed(partition.small_bytes, target_bytes), 0)


def total_excess_files(status: TableStatus) -> int:
    target = status.target_file_bytes
    return sum(
        excess_files(partition, target)
        for partition in status.partitions
        if partition.small_files >= MIN_SMALL_FILES or partition.small_bytes >= target
    )


def _issue(code: IssueCode, penalty: float, sentence: str, **evidence: float) -> Issue:
    severity = Severity.CRITICAL if penalty >= 20 else Severity.WARNING if penalty >= 5 else Severity.INFO
    return Issue(code=code, severity=severity, penalty=round(penalty, 1), sentence=sentence, evidence=evidence)


def _small_files(status: TableStatus, now: datetime) -> Iterator[Issue]:
    excess = total_excess_files(status)
    if not excess:
        return
    small = sum(partition.small_files for partition in status.partitions)
    share = excess / max(status.data.count, 1)
    penalty = 40 * share * min(excess / EXCESS_FILES_AT_FULL_PENALTY, 1.0)
    yield _issue(
        IssueCode.SMALL_FILES,
        penalty,
        f"{small:,} of {status.data.count:,} data files are smaller than {format_size(status.small_file_bytes)} "
        f"(average {format_size(status.data.average_bytes)}); {excess:,} of them could go.",
        small_files=small,
        excess_files=excess,
        data_files=status.data.count,
        average_bytes=status.data.average_bytes,
        small_file_bytes=status.small_file_bytes,
    )


def _delete_pressure(status: TableStatus, now: datetime) -> Iterator[Issue]:
    live = status.deletes.files - status.deletes.dangling_files
    ratio = fragment_ratio(status.data.count, live)
    row_share = status.deletes.records / max(status.data.records, 1)
    if live <= 0 or (ratio <= DELETE_RATIO_LIMIT and row_share <= DELETE_ROW_SHARE_LIMIT):
        return
    penalty = 10 + 15 * min(max(ratio, row_share * 2), 1.0)
    yield _issue(
        IssueCode.DELETE_PRESSURE,
        penalty,
        f"{live:,} delete files with {status.deletes.records:,} rows weigh on {status.data.count:,} data files: "
        f"every read has to merge them.",
        delete_files=live,
        delete_records=status.deletes.records,
        ratio=ratio,
        row_share=row_share,
    )


def _dangling_deletes(status: TableStatus, now: datetime) -> Iterator[Issue]:
    count = status.deletes.dangling_files
    if count:
        yield _issue(
            IssueCode.DANGLING_DELETES,
            5 + min(count / 20, 5.0),
            f"{count:,} delete files no longer apply to any data file, but are still planned with every read.",
            dangling_files=count,
        )


def _too_many_snapshots(status: TableStatus, now: datetime) -> Iterator[Issue]:
    count = status.snapshots.count
    if count > SNAPSHOT_COUNT_LIMIT:
        yield _issue(
            IssueCode.TOO_MANY_SNAPSHOTS,
            min(5 + 5 * (count - SNAPSHOT_COUNT_LIMIT) / SNAPSHOT_COUNT_LIMIT, 10.0),
            f"{count:,} snapshots are kept; more than {SNAPSHOT_COUNT_LIMIT} slow down every commit.",
            snapshots=count,
        )


def snapshot_age_limit(status: TableStatus) -> timedelta:
    own = _own_number(status, "history.expire.max-snapshot-age-ms")
    return SNAPSHOT_AGE_LIMIT if own is None else from_milliseconds(own)


def max_ref_age(status: TableStatus) -> timedelta | None:
    own = _own_number(status, "history.expire.max-ref-age-ms")
    return None if own is None else from_milliseconds(own)


def _own_number(status: TableStatus, key: str) -> int | None:
    return own_number(status.properties, key)


def _snapshots_past_retention(status: TableStatus, now: datetime) -> Iterator[Issue]:
    limit = snapshot_age_limit(status)
    gone = expired_snapshots(
        status.snapshots,
        older_than=limit,
        retain_last=_own_number(status, "history.expire.min-snapshots-to-keep") or 1,
        now=now,
        max_ref_age=max_ref_age(status),
    )
    old = [entry for entry in status.snapshots.entries if entry.snapshot_id in gone]
    if not old:
        return
    oldest = now - min(entry.committed_at for entry in old)
    yield _issue(
        IssueCode.SNAPSHOTS_PAST_RETENTION,
        5 + 10 * min(len(old) / 100, 1.0),
        f"{len(old):,} snapshots are past their retention of {format_duration(limit)} (the oldest is "
        f"{format_duration(oldest)} old); they keep files alive that nobody reads.",
        snapshots=len(old),
        oldest_days=oldest.days,
        limit_days=limit.total_seconds() / 86400,
    )


def _fragmented_manifests(status: TableStatus, now: datetime) -> Iterator[Issue]:
    manifests = status.manifests
    ideal = ideal_manifests(status)
    if not too_many_manifests(manifests.count, ideal):
        return
    yield _issue(
        IssueCode.FRAGMENTED_MANIFESTS,
        5 + 10 * min((manifests.count - ideal) / 100, 1.0),
        f"{manifests.count:,} manifests hold {manifests.average_entries:.1f} files each; {ideal:,} would do, "
        f"and every query plan opens them all.",
        manifests=manifests.count,
        ideal=ideal,
        average_entries=manifests.average_entries,
    )


def too_many_manifests(count: int, ideal: int) -> bool:
    return count > max(MANIFEST_COUNT_FLOOR, 2 * ideal)


def ideal_manifests(status: TableStatus) -> int:
    """As many as the bytes need at the table's own manifest target, data and deletes apart."""
    kinds = 2 if status.manifests.delete_manifests else 1
    return max(kinds, files_needed(status.manifests.bytes, status.manifests.target_bytes))


def _oversized_manifests(status: TableStatus, now: datetime) -> Iterator[Issue]:
    manifests = status.manifests
    if manifests.largest_bytes > 2 * manifests.target_bytes:
        yield _issue(
            IssueCode.OVERSIZED_MANIFESTS,
            5,
            f"The largest manifest has {format_size(manifests.largest_bytes)}, over twice the target of "
            f"{format_size(manifests.target_bytes)}: a plan cannot be spread over it.",
            largest_bytes=manifests.largest_bytes,
            target_bytes=manifests.target_bytes,
        )


def _metadata_bloat(status: TableStatus, now: datetime) -> Iterator[Issue]:
    metadata = status.metadata
    if metadata.file_bytes > METADATA_BYTES_LIMIT or metadata.log_length > METADATA_LOG_LIMIT:
        yield _issue(
            IssueCode.METADATA_BLOAT,
            5,
            f"The metadata file has {format_size(metadata.file_bytes)} and {metadata.log_length:,} earlier versions; "
            f"every reader loads it first.",
            file_bytes=metadata.file_bytes,
            log_length=metadata.log_length,
        )


def _skewed_partitions(status: TableStatus, now: datetime) -> Iterator[Issue]:
    sizes = [partition.bytes for partition in status.partitions if partition.data_files]
    if len(sizes) < 5:
        return
    skew = max(sizes) / max(median(sizes), 1)
    if skew > SKEW_LIMIT and max(sizes) > status.target_file_bytes:
        yield _issue(
            IssueCode.SKEWED_PARTITIONS,
            3,
            f"The largest of {len(sizes):,} partitions has {skew:.0f} times the median's bytes; "
            f"maintenance cannot change that, a different partition spec can.",
            skew=skew,
            partitions=len(sizes),
        )


def _stale_compaction(status: TableStatus, now: datetime) -> Iterator[Issue]:
    """Only a table that has something to compact can be late with it."""
    if total_excess_files(status) < 10:
        return
    last = status.last_compaction_at
    if last is None or now - last > STALE_AFTER:
        when = "never" if last is None else f"{format_duration(now - last)} ago"
        yield _issue(
            IssueCode.STALE_COMPACTION,
            5,
            f"Last compacted: {when}, while small files pile up.",
            days_since=-1 if last is None else (now - last).days,
        )


_CHECKS: tuple[Callable[[TableStatus, datetime], Iterator[Issue]], ...] = (
    _small_files,
    _delete_pressure,
    _dangling_deletes,
    _too_many_snapshots,
    _snapshots_past_retention,
    _fragmented_manifests,
    _oversized_manifests,
    _metadata_bloat,
    _skewed_partitions,
    _stale_compaction,
)
