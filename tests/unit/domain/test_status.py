from __future__ import annotations

import pytest

from domain.factories import DAY, NOW, branch, data_file, history, key, status, tag
from icepack.domain.status import (
    DataFileStatus,
    DeleteFileTotals,
    DeleteStatus,
    ManifestStatus,
    PartitionStatus,
)


def test_averages_without_files_are_zero():
    assert DataFileStatus().average_bytes == 0
    assert ManifestStatus().average_entries == 0


def test_averages_are_per_file_and_per_manifest():
    assert DataFileStatus(count=4, bytes=10).average_bytes == 2.5
    assert ManifestStatus(count=4, entries=10).average_entries == 2.5


def test_deletes_add_up_over_their_kinds():
    one = DeleteFileTotals(files=1, bytes=10, records=100)
    every = DeleteStatus(position=one, equality=one, vectors=one)
    assert (every.files, every.bytes, every.records) == (3, 30, 300)


def test_a_partition_and_a_file_count_deletes_of_every_kind():
    counts = {"position_delete_files": 1, "equality_delete_files": 2, "deletion_vectors": 3}
    assert PartitionStatus(key=key(), **counts).delete_files == 6
    assert data_file(**counts).delete_files == 6


def test_refs_are_separated_by_kind():
    found = history(DAY, refs=[branch("audit", 1), tag("release", 1)])
    assert found.branches == ("main", "audit")
    assert found.tags == ("release",)


@pytest.mark.parametrize(
    ("properties", "enabled"),
    [
        ({}, True),
        ({"gc.enabled": "true"}, True),
        ({"gc.enabled": "false"}, False),
        ({"gc.enabled": "FALSE"}, False),
        ({"gc.enabled": "no"}, False),
    ],
)
def test_garbage_collection_is_on_unless_the_table_says_otherwise(properties, enabled):
    assert status(properties=properties).gc_enabled is enabled


def test_the_time_since_compaction_is_measured_at_the_observation():
    table = status(last_compaction_at=NOW - DAY)
    assert table.time_since_compaction == DAY
    assert status().time_since_compaction is None


def test_a_tables_bytes_are_those_of_data_and_deletes():
    table = status(deletes=DeleteStatus(position=DeleteFileTotals(files=1, bytes=7)))
    assert table.total_bytes == table.data.bytes + 7
