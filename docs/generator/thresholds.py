"""The condition of each issue, and its penalty as an expression over its evidence; a test evaluates the expressions."""

from __future__ import annotations

from icepack.config.types import duration_text, size_text
from icepack.domain import health
from icepack.domain.health import IssueCode

_EXCESS = health.EXCESS_FILES_AT_FULL_PENALTY
_SNAPSHOTS = health.SNAPSHOT_COUNT_LIMIT
_AGE = duration_text(health.SNAPSHOT_AGE_LIMIT)

FOUND_WHEN = {
    IssueCode.SMALL_FILES: f"a partition has {health.MIN_SMALL_FILES} or more small files, or small files that fill a "
    "whole target file, and merging them would leave fewer",
    IssueCode.DELETE_PRESSURE: f"there are more than {health.DELETE_RATIO_LIMIT:g} delete files per data file, or "
    f"delete rows for more than {health.DELETE_ROW_SHARE_LIMIT:.0%} of the rows (dangling delete files not counted)",
    IssueCode.DANGLING_DELETES: "at least one delete file applies to no data file",
    IssueCode.TOO_MANY_SNAPSHOTS: f"there are more than {_SNAPSHOTS} snapshots",
    IssueCode.SNAPSHOTS_PAST_RETENTION: f"a snapshot is older than {_AGE} and no branch or tag keeps it "
    "(the table's own `history.expire.*` properties count, if it has any)",
    IssueCode.FRAGMENTED_MANIFESTS: f"there are more than {health.MANIFEST_COUNT_FLOOR} manifests, and more than twice "
    "as many as their bytes need",
    IssueCode.OVERSIZED_MANIFESTS: "the largest manifest is over twice `commit.manifest.target-size-bytes` (8MB if "
    "the table does not set it)",
    IssueCode.METADATA_BLOAT: f"the metadata file is over {size_text(health.METADATA_BYTES_LIMIT)}, or lists more "
    f"than {health.METADATA_LOG_LIMIT} earlier metadata files",
    IssueCode.SKEWED_PARTITIONS: "there are 5 or more partitions, the largest has over "
    f"{health.SKEW_LIMIT:g} times the median's bytes, and more than one target file",
    IssueCode.STALE_COMPACTION: "10 or more files could be removed, and the last compaction was more than "
    f"{duration_text(health.STALE_AFTER)} ago, or never",
}

PENALTY = {
    IssueCode.SMALL_FILES: f"40 * excess_files / data_files * min(excess_files / {_EXCESS}, 1)",
    IssueCode.DELETE_PRESSURE: "10 + 15 * min(max(ratio, 2 * row_share), 1)",
    IssueCode.DANGLING_DELETES: "5 + min(dangling_files / 20, 5)",
    IssueCode.TOO_MANY_SNAPSHOTS: f"min(5 + 5 * (snapshots - {_SNAPSHOTS}) / {_SNAPSHOTS}, 10)",
    IssueCode.SNAPSHOTS_PAST_RETENTION: "5 + 10 * min(snapshots / 100, 1)",
    IssueCode.FRAGMENTED_MANIFESTS: "5 + 10 * min((manifests - ideal) / 100, 1)",
    IssueCode.OVERSIZED_MANIFESTS: "5",
    IssueCode.METADATA_BLOAT: "5",
    IssueCode.SKEWED_PARTITIONS: "3",
    IssueCode.STALE_COMPACTION: "5",
}
