"""Why a compaction includes a partition or leaves it out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from icepack.domain.actions import Compact, Strategy
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.estimate import estimate_compaction
from icepack.domain.plan.explanation import explain_partitions
from icepack.domain.plan.files import PartitionKey
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import MIB

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
GRACE = timedelta(hours=1)


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
    ("found", "action", "reason"),
    [
        (partition("p"), Compact(), "20 of 20 files become 1."),
        (partition("p", files=0, small=0), Compact(), "No data files."),
        (partition("p", small=3), Compact(), "3 small files, fewer than the minimum of 5 (min_input_files)."),
        (
            partition("p", small=9),
            Compact(target_file_bytes=MIB),
            "Merging small files into files of 1.0 MB would not leave fewer files.",
        ),
        (partition("p"), Compact(strategy=Strategy.DELETE_FILES), "No files with deletes."),
        (
            partition("p", ends_at=NOW),
            Compact(strategy=Strategy.TIME_SERIES),
            "Still being written: its period ends at 2026-11-15 12:00 UTC.",
        ),
        (
            partition("p", files_with_deletes=4, bytes_with_deletes=4 * MIB, position_delete_files=2),
            Compact(delete_file_threshold=1),
            "20 of 20 files become 1; 2 delete files can be applied.",
        ),
    ],
)
def test_one_sentence_says_why(found: PartitionStatus, action: Compact, reason: str) -> None:
    explained = explain_partitions(table(found), action, CostModel(), NOW, open_grace=GRACE)[found.key]
    assert explained.reason == reason
    planned = estimate_compaction(table(found), action, CostModel(), NOW, open_grace=GRACE)
    assert explained.planned == bool(planned.groups)
