"""Which groups are compared by value, and how a proof is summarized."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.verification import (
    CheckReason,
    ColumnDifference,
    GroupClasses,
    Mismatch,
    ProofLevel,
    ValueProof,
    select_groups_to_compare,
)

NOW = datetime(2026, 11, 18, tzinfo=UTC)
RECENTLY = NOW - timedelta(days=1)

classes = st.frozensets(st.sampled_from("abcd"), max_size=3)
many = st.lists(classes, max_size=30).map(
    lambda found: [GroupClasses(number=number, class_ids=ids) for number, ids in enumerate(found)]
)


def chosen(groups: list[GroupClasses], **given: object) -> dict[int, CheckReason]:
    settings = {
        "level": ProofLevel.SAMPLED,
        "trusted": frozenset(),
        "last_checked_at": RECENTLY,
        "seed": "s",
        "share": 0.0,
    }
    return select_groups_to_compare(groups, now=NOW, **{**settings, **given})  # type: ignore[arg-type]


@given(many)
def test_count_compares_nothing_and_full_everything(groups: list[GroupClasses]) -> None:
    assert chosen(groups, level=ProofLevel.COUNT, last_checked_at=None, share=1.0) == {}
    assert chosen(groups, level=ProofLevel.FULL) == {group.number: CheckReason.FULL for group in groups}


@given(many, classes)
def test_every_new_class_is_in_a_group_that_is_compared(groups: list[GroupClasses], trusted: frozenset[str]) -> None:
    found = chosen(groups, trusted=trusted)
    compared = frozenset().union(*(group.class_ids for group in groups if group.number in found))
    met = frozenset().union(*(group.class_ids for group in groups))
    assert met - trusted <= compared
    assert set(found.values()) <= {CheckReason.NEW_CLASS}


@given(many)
def test_a_class_is_compared_once(groups: list[GroupClasses]) -> None:
    assert len(chosen(groups)) <= 4


@given(many.filter(bool), st.sampled_from([None, NOW - timedelta(days=7)]))
def test_after_a_week_one_group_is_compared(groups: list[GroupClasses], last: datetime | None) -> None:
    assert chosen(groups, trusted=frozenset("abcd"), last_checked_at=last) == {0: CheckReason.OVERDUE}
    assert chosen(groups, trusted=frozenset("abcd")) == {}


def test_the_sample_is_about_its_share_and_differs_between_runs() -> None:
    groups = [GroupClasses(number=number, class_ids=frozenset("a")) for number in range(20_000)]
    one = chosen(groups, trusted=frozenset("a"), share=0.01)
    assert 150 <= len(one) <= 250
    assert set(one.values()) == {CheckReason.SAMPLE}
    assert one == chosen(groups, trusted=frozenset("a"), share=0.01)
    assert one != chosen(groups, trusted=frozenset("a"), share=0.01, seed="t")


@pytest.mark.parametrize(
    ("proof", "sentence"),
    [
        (
            ValueProof(level=ProofLevel.SAMPLED, groups=12, groups_compared=2),
            "12 groups, rows counted in all, values compared in 2",
        ),
        (ValueProof(level=ProofLevel.COUNT, groups=1), "1 group, rows counted in all, values compared in 0"),
        (
            ValueProof(level=ProofLevel.FULL, groups=2, groups_compared=2, spark_groups=3, commits_compared=1),
            "5 groups, rows counted in all, values compared in 5",
        ),
    ],
)
def test_a_proof_says_what_was_compared(proof: ValueProof, sentence: str) -> None:
    assert proof.sentence == sentence


def test_a_mismatch_names_each_column_once() -> None:
    found = [
        ColumnDifference(column=name, measure=measure, before="1", after="2")
        for name in ("b", "a")
        for measure in ("hash_1", "hash_2")
    ]
    mismatch = Mismatch(
        snapshot_id=1,
        partition="",
        classes=(),
        files=(),
        rows_before=1,
        rows_after=1,
        differences=tuple(found),
        kernel_version="1",
    )
    assert mismatch.columns == ("b", "a")
