"""What a run tells while it runs: groups that are done, partitions that are worked on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from icepack.engine import progress
from icepack.engine.native import job
from icepack.kernel.executor import Tally


def test_counts_by_name_add_up_and_begin_empty() -> None:
    tally = Tally()
    total = tally.addInPlace(tally.addInPlace({}, {1: 1}), {1: 1, 2: 1})
    assert total == {1: 2, 2: 1}
    assert tally.zero(total) == {}


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("PartitionData{day=2026-01-14}", "day=2026-01-14"),
        ("PartitionData{day=1, region=eu}", "day=1/region=eu"),
        ("{day=1}", "day=1"),
        ("odd", "odd"),
    ],
)
def test_a_partition_is_named_without_its_braces(said: str, path: str) -> None:
    described = f"Rewriting 7 files (BIN-PACK, file group 3/12, {said} (1/2)) in lake.sales.orders"
    found = progress._GROUP.search(described)
    assert found is not None
    assert (found[1], found[2], progress._path(found[3])) == ("7", "12", path)


def test_a_table_without_partitions_has_groups_all_the_same() -> None:
    found = progress._GROUP.search("Rewriting 7 files (BIN-PACK, file group 3/12) in lake.sales.orders")
    assert found is not None
    assert (found[2], found[3]) == ("12", None)


def test_a_spark_that_does_not_tell_what_runs_is_no_trouble() -> None:
    context: Any = SimpleNamespace()
    assert job._running(context, "tag") == []
