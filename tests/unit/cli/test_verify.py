"""The verify command before it needs Spark, and how it describes a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from icepack.cli.commands.verify import describe_comparison
from icepack.domain.verification import ColumnDifference, ValueComparison

from .conftest import Call

EQUAL = ValueComparison(
    snapshot_id=1,
    against_id=2,
    rows_before=1000,
    rows_after=1000,
    files_before=3,
    files_after=1,
    files_shared=2,
    differences=(),
)
OTHER = ColumnDifference(column="c", measure="hash_1", before="1", after="2")


@pytest.mark.parametrize("flags", [("--snapshot", "1"), ("--against", "1"), ("--repeat", "--all-files")])
def test_flags_that_do_not_fit_together_are_refused(call: Call, lake: Path, flags: tuple[str, ...]) -> None:
    assert call("verify", "sales.orders", *flags).code == 2


def test_a_check_that_never_failed_cannot_be_repeated(call: Call, lake: Path) -> None:
    answer = call("verify", "sales.orders", "--repeat")
    assert answer.code == 2
    assert "no value check has failed" in answer.err.lower()


def test_a_table_without_commits_of_icepack_says_what_to_do(call: Call, lake: Path) -> None:
    answer = call("verify", "sales.orders")
    assert answer.code == 0
    assert "--snapshot" in answer.out


def test_equal_snapshots_say_what_was_read() -> None:
    assert describe_comparison(EQUAL) == "1 and 2: equal (1,000 rows compared in 4 files; 2 files shared)"


def test_different_ones_say_so() -> None:
    other = ValueComparison(
        snapshot_id=1,
        against_id=None,
        rows_before=2,
        rows_after=3,
        files_before=1,
        files_after=1,
        files_shared=0,
        differences=(OTHER,),
    )
    assert describe_comparison(other) == "1 and its native rewrite: DIFFERENT (2 and 3 rows compared in 2 files)"
