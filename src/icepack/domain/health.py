"""HealthReport: a score from 0 to 100 and the issues behind it.

Health is measured against the table's own properties and the fixed limits below, never against a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median

from icepack.domain.plan.expiry import find_expired_snapshots
from icepack.domain.plan.score import compute_fragment_ratio
from icepack.domain.plan.select import count_files_needed
from icepack.domain.status import PartitionStatus, TableStatus, parse_int_property
from icepack.domain.table import TableId
from icepack.domain.units import MIB, format_count, format_duration, format_size, from_milliseconds

HEALTH_VERSION = 1

# A partition with fewer small files is not an issue, as in Iceberg's own planner, unless they fill a whole file.
MIN_SMALL_FILES = 5
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


def assess_health(status: TableStatus, now: datetime) -> HealthReport:
    """Reports all issues, worst first, and the score: 100 minus their penalties."""
    issues = sorted(
        (issue for check in _CHECKS for issue in check(status, now)),
        key=lambda issue: (-issue.penalty, issue.code),
    )
    score = max(0, round(100 - sum(issue.penalty for issue in issues)))
    return HealthReport(
        table=status.table, snapshot_id=status.snapshot_id, assessed_at=now, score=score, issues=tuple(issues)
    )


def count_excess_files(partition: PartitionStatus, target_bytes: int) -> int:
    """Counts the small files beyond what their bytes need; a single small file is never in excess."""
    return max(partition.small_files - count_files_needed(partition.small_bytes, target_bytes), 0)


def count_table_excess_files(status: TableStatus) -> int:
    """Sums the excess files of all partitions that have enough small files to be worth merging."""
    target = status.target_file_bytes
    return sum(
        count_excess_files(partition, target)
        for partition in status.partitions
        if partition.small_files >= MIN_SMALL_FILES or partition.small_bytes >= target
    )


def _issue(code: IssueCode, penalty: float, sentence: str, **evidence: float) -> Issue:
    severity = Severity.CRITICAL if penalty >= 20 else Severity.WARNING if penalty >= 5 else Severity.INFO
    return Issue(code=code, severity=severity, penalty=round(penalty, 1), sentence=sentence, evidence=evidence)


def _check_small_files(status: TableStatus, now: datetime) -> Iterator[Issue]:
    excess = count_table_excess_files(status)
    if not excess:
        return
    small = sum(partition.small_files for partition in status.partitions)
    share = excess / max(status.data.count, 1)
    penalty = 40 * share * min(excess / EXCESS_FILES_AT_FULL_PENALTY, 1.0)
    yield _issue(
        IssueCode.SMALL_FILES,
        penalty,
        f"{small:,} of {status.data.count:,} data files are smaller than {format_size(status.small_file_bytes)} "
        f"(average {format_size(status.data.average_bytes)}); compaction can remove {excess:,} of them.",
        small_files=small,
        excess_files=excess,
        data_files=status.data.count,
        average_bytes=status.data.average_bytes,
        small_file_bytes=status.small_file_bytes,
    )


def _check_delete_pressure(status: TableStatus, now: datetime) -> Iterator[Issue]:
    live = status.deletes.files - status.deletes.dangling_files
    ratio = compute_fragment_ratio(status.data.count, live)
    row_share = status.deletes.records / max(status.data.records, 1)
    if live <= 0 or (ratio <= DELETE_RATIO_LIMIT and row_share <= DELETE_ROW_SHARE_LIMIT):
        return
    penalty = 10 + 15 * min(max(ratio, row_share * 2), 1.0)
    yield _issue(
        IssueCode.DELETE_PRESSURE,
        penalty,
        f"{format_count(live, 'delete file')} with {format_count(status.deletes.records, 'row')} "
        f"{'applies' if live == 1 else 'apply'} to {format_count(status.data.count, 'data file')}; every read merges "
        f"them (limits: {DELETE_RATIO_LIMIT:g} delete files per data file, {DELETE_ROW_SHARE_LIMIT:.0%} of rows).",
        delete_files=live,
        delete_records=status.deletes.records,
        ratio=ratio,
        row_share=row_share,
    )


def _check_dangling_deletes(status: TableStatus, now: datetime) -> Iterator[Issue]:
    count = status.deletes.dangling_files
    if count:
        verb, pronoun = ("applies", "it") if count == 1 else ("apply", "them")
        yield _issue(
            IssueCode.DANGLING_DELETES,
            5 + min(count / 20, 5.0),
            f"{format_count(count, 'delete file')} no longer {verb} to any data file, but every scan still plans "
            f"{pronoun}.",
            dangling_files=count,
        )


def _check_snapshot_count(status: TableStatus, now: datetime) -> Iterator[Issue]:
    count = status.snapshots.count
    if count > SNAPSHOT_COUNT_LIMIT:
        yield _issue(
            IssueCode.TOO_MANY_SNAPSHOTS,
            min(5 + 5 * (count - SNAPSHOT_COUNT_LIMIT) / SNAPSHOT_COUNT_LIMIT, 10.0),
            f"{count:,} snapshots are kept; more than {SNAPSHOT_COUNT_LIMIT} slow down every commit.",
            snapshots=count,
        )


def get_snapshot_age_limit(status: TableStatus) -> timedelta:
    own = parse_int_property(status.properties, "history.expire.max-snapshot-age-ms")
    return SNAPSHOT_AGE_LIMIT if own is None else from_milliseconds(own)


def get_max_ref_age(status: TableStatus) -> timedelta | None:
    own = parse_int_property(status.properties, "history.expire.max-ref-age-ms")
    return None if own is None else from_milliseconds(own)


def _check_snapshot_age(status: TableStatus, now: datetime) -> Iterator[Issue]:
    limit = get_snapshot_age_limit(status)
    expired = find_expired_snapshots(
        status.snapshots,
        older_than=limit,
        retain_last=parse_int_property(status.properties, "history.expire.min-snapshots-to-keep") or 1,
        now=now,
        max_ref_age=get_max_ref_age(status),
    )
    old = [entry for entry in status.snapshots.entries if entry.snapshot_id in expired]
    if not old:
        return
    oldest = now - min(entry.committed_at for entry in old)
    verb, keep = ("is", "keeps") if len(old) == 1 else ("are", "keep")
    yield _issue(
        IssueCode.SNAPSHOTS_PAST_RETENTION,
        5 + 10 * min(len(old) / 100, 1.0),
        f"{format_count(len(old), 'snapshot')} {verb} older than the retention of {format_duration(limit)} "
        f"(oldest: {format_duration(oldest)}) and {keep} unused files in storage.",
        snapshots=len(old),
        oldest_days=oldest.days,
        limit_days=limit.total_seconds() / 86400,
    )


def _check_manifest_count(status: TableStatus, now: datetime) -> Iterator[Issue]:
    manifests = status.manifests
    ideal = count_ideal_manifests(status)
    if not has_too_many_manifests(manifests.count, ideal):
        return
    yield _issue(
        IssueCode.FRAGMENTED_MANIFESTS,
        5 + 10 * min((manifests.count - ideal) / 100, 1.0),
        f"{manifests.count:,} manifests hold {manifests.average_entries:.1f} files each; {ideal:,} would be enough at "
        f"the target size of {format_size(manifests.target_bytes)}. Query planning reads every manifest.",
        manifests=manifests.count,
        ideal=ideal,
        average_entries=manifests.average_entries,
    )


def has_too_many_manifests(count: int, ideal: int) -> bool:
    return count > max(MANIFEST_COUNT_FLOOR, 2 * ideal)


def count_ideal_manifests(status: TableStatus) -> int:
    """Counts the manifests needed at the table's own manifest target size; data and deletes need one each."""
    kinds = 2 if status.manifests.delete_manifests else 1
    return max(kinds, count_files_needed(status.manifests.bytes, status.manifests.target_bytes))


def _check_manifest_size(status: TableStatus, now: datetime) -> Iterator[Issue]:
    manifests = status.manifests
    if manifests.largest_bytes > 2 * manifests.target_bytes:
        yield _issue(
            IssueCode.OVERSIZED_MANIFESTS,
            5,
            f"The largest manifest is {format_size(manifests.largest_bytes)}, more than twice the target of "
            f"{format_size(manifests.target_bytes)}, so query planning cannot read it in parallel.",
            largest_bytes=manifests.largest_bytes,
            target_bytes=manifests.target_bytes,
        )


def _check_metadata_size(status: TableStatus, now: datetime) -> Iterator[Issue]:
    metadata = status.metadata
    if metadata.file_bytes > METADATA_BYTES_LIMIT or metadata.log_length > METADATA_LOG_LIMIT:
        yield _issue(
            IssueCode.METADATA_BLOAT,
            5,
            f"The metadata file is {format_size(metadata.file_bytes)} and lists "
            f"{format_count(metadata.log_length, 'earlier version')} (limits: {format_size(METADATA_BYTES_LIMIT)}, "
            f"{METADATA_LOG_LIMIT} versions); every reader loads it first.",
            file_bytes=metadata.file_bytes,
            log_length=metadata.log_length,
        )


def _check_partition_skew(status: TableStatus, now: datetime) -> Iterator[Issue]:
    sizes = [partition.bytes for partition in status.partitions if partition.data_files]
    if len(sizes) < 5:
        return
    skew = max(sizes) / max(median(sizes), 1)
    if skew > SKEW_LIMIT and max(sizes) > status.target_file_bytes:
        yield _issue(
            IssueCode.SKEWED_PARTITIONS,
            3,
            f"The largest of {len(sizes):,} partitions is {skew:.0f} times the median size (limit: {SKEW_LIMIT:g}); "
            f"maintenance cannot change that, only a different partition spec can.",
            skew=skew,
            partitions=len(sizes),
        )


def _check_compaction_age(status: TableStatus, now: datetime) -> Iterator[Issue]:
    """A table with fewer than 10 excess files has nothing to compact, so its compaction is never overdue."""
    if count_table_excess_files(status) < 10:
        return
    last = status.last_compaction_at
    if last is None or now - last > STALE_AFTER:
        when = "Never compacted"
        if last is not None:
            when = f"Last compacted {format_duration(now - last)} ago (limit: {format_duration(STALE_AFTER)})"
        yield _issue(
            IssueCode.STALE_COMPACTION,
            5,
            f"{when}, and small files are accumulating.",
            days_since=-1 if last is None else (now - last).days,
        )


_CHECKS: tuple[Callable[[TableStatus, datetime], Iterator[Issue]], ...] = (
    _check_small_files,
    _check_delete_pressure,
    _check_dangling_deletes,
    _check_snapshot_count,
    _check_snapshot_age,
    _check_manifest_count,
    _check_manifest_size,
    _check_metadata_size,
    _check_partition_skew,
    _check_compaction_age,
)
