"""Why a score is what it is, and why a partition is taken or left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from icepack.domain.actions import Compact, Strategy
from icepack.domain.health import IssueCode
from icepack.domain.health_explanation import MEANINGS
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.files import PartitionKey
from icepack.domain.plan.why import partition_verdicts
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import MIB

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
GRACE = timedelta(hours=1)


def test_every_issue_has_a_meaning() -> None:
    assert set(MEANINGS) == set(IssueCode)


def partition(path: str, files: int = 20, small: int = 20, **facts: object) -> PartitionStatus:
    plain = {"data_files": files, "bytes": files * MIB, "small_files": small, "small_bytes": small * MIB}
    return PartitionStatus(key=PartitionKey(0, path), **plain | facts)  # type: ignore[arg-type]


def table(*partitions: PartitionStatus) -> TableStatus:
    return TableStatus(
        table=TableId("lake", ("sales",), "orders"),
        observed_at=NOW,
        metadata_location="",
        table_uuid="",
        format_version=2,
        location="",
        snapshot_id=1,
        partitions=partitions,
    )


@pytest.mark.parametrize(
    ("sick", "action", "said"),
    [
        (partition("p"), Compact(), "20 of its 20 files become 1."),
        (partition("p", files=0, small=0), Compact(), "It has no data files."),
        (partition("p", small=3), Compact(), "It has 3 small files; fewer than 5 are left to grow."),
        (partition("p", small=9), Compact(target_file_bytes=MIB), "Its small files could not be fewer at 1.0 MB each."),
        (partition("p"), Compact(strategy=Strategy.DELETE_FILES), "None of its files has deletes."),
        (
            partition("p", ends_at=NOW),
            Compact(strategy=Strategy.TIME_SERIES),
            "It is still being written: the time it covers ends at 2026-11-15 12:00 UTC.",
        ),
        (
            partition("p", files_with_deletes=4, bytes_with_deletes=4 * MIB, position_delete_files=2),
            Compact(delete_file_threshold=1),
            "20 of its 20 files become 1, and 2 delete files are applied for good.",
        ),
    ],
)
def test_one_sentence_says_why(sick: PartitionStatus, action: Compact, said: str) -> None:
    verdict = partition_verdicts(table(sick), action, CostModel(), NOW, open_grace=GRACE)[sick.key]
    assert verdict.reason.replace("MiB", "MB") == said
    planned = estimate_compaction(table(sick), action, CostModel(), NOW, open_grace=GRACE)
    assert verdict.planned == bool(planned.groups)
