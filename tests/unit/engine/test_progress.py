from __future__ import annotations

import pytest

from icepack.engine import progress


@pytest.mark.parametrize(
    ("partition", "path"),
    [
        ("PartitionData{day=2026-01-14}", "day=2026-01-14"),
        ("PartitionData{day=1, region=eu}", "day=1/region=eu"),
        ("{day=1}", "day=1"),
        ("odd", "odd"),
    ],
)
def test_a_partition_path_has_no_braces(partition: str, path: str) -> None:
    description = f"Rewriting 7 files (BIN-PACK, file group 3/12, {partition} (1/2)) in lake.sales.orders"
    found = progress._GROUP_DESCRIPTION.search(description)
    assert found is not None
    assert (found[1], found[2], progress._partition_path(found[3])) == ("7", "12", path)


def test_an_unpartitioned_table_has_file_groups_too() -> None:
    found = progress._GROUP_DESCRIPTION.search("Rewriting 7 files (BIN-PACK, file group 3/12) in lake.sales.orders")
    assert found is not None
    assert (found[2], found[3]) == ("12", None)
