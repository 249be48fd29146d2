from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import DAY, NOW, branch, entry, history, main, snapshots, tag
from icepack.domain.plan.expiry import find_expired_snapshots
from icepack.domain.status import SnapshotStatus
from icepack.domain.units import FOREVER

MS_PER_DAY = 86_400_000
WEEK = 7 * DAY


def expired(found, *, older_than=WEEK, retain_last=1, **facts):
    return find_expired_snapshots(found, older_than=older_than, retain_last=retain_last, now=NOW, **facts)


def test_snapshots_past_the_retention_go_and_younger_ones_stay():
    assert expired(history(10 * DAY, 8 * DAY, 6 * DAY, DAY)) == {1, 2}


def test_a_snapshot_exactly_at_the_limit_stays():
    assert expired(history(WEEK, DAY)) == frozenset()
    assert expired(history(WEEK + timedelta(milliseconds=1), DAY)) == {1}


def test_the_newest_snapshots_are_kept_by_count_however_old():
    old = history(40 * DAY, 30 * DAY, 20 * DAY, 10 * DAY)
    assert expired(old) == {1, 2, 3}
    assert expired(old, retain_last=3) == {1}
    assert expired(old, retain_last=9) == frozenset()


def test_the_current_snapshot_stays_even_when_asked_to_keep_none():
    assert expired(history(40 * DAY, 30 * DAY), retain_last=0) == {1}


def test_a_table_without_snapshots_has_none_to_expire():
    assert expired(SnapshotStatus()) == frozenset()


def test_a_tag_keeps_its_snapshot_and_not_its_ancestors():
    assert expired(history(40 * DAY, 30 * DAY, 20 * DAY, DAY, refs=[tag("release", 2)])) == {1, 3}


def test_a_branch_keeps_its_head_and_what_its_own_settings_say():
    line = history(40 * DAY, 30 * DAY, 20 * DAY, DAY, refs=[branch("audit", 3, min_snapshots_to_keep=2)])
    assert expired(line) == {1}
    line = history(40 * DAY, 30 * DAY, 20 * DAY, DAY, refs=[branch("audit", 3, max_snapshot_age_ms=35 * MS_PER_DAY)])
    assert expired(line) == {1}


def test_the_settings_of_main_beat_the_callers():
    line = history(40 * DAY, 6 * DAY, DAY)
    strict = snapshots(line.entries, [main(3, max_snapshot_age_ms=2 * MS_PER_DAY)])
    assert expired(strict) == {1, 2}
    patient = snapshots(line.entries, [main(3, min_snapshots_to_keep=3)])
    assert expired(patient) == frozenset()


def test_a_branch_of_its_own_line_is_kept_by_its_own_head():
    entries = [entry(1, None, 40 * DAY), entry(2, 1, DAY), entry(3, 1, 30 * DAY), entry(4, 3, 20 * DAY)]
    assert expired(snapshots(entries, [main(2), branch("experiment", 4)])) == {1, 3}


def test_an_aged_out_ref_keeps_nothing():
    refs = [tag("release", 1, max_ref_age_ms=10 * MS_PER_DAY), branch("audit", 2, max_ref_age_ms=10 * MS_PER_DAY)]
    assert expired(history(40 * DAY, 30 * DAY, DAY, refs=refs)) == {1, 2}


def test_a_ref_ages_out_only_after_its_age():
    assert expired(history(40 * DAY, DAY, refs=[tag("release", 1, max_ref_age_ms=40 * MS_PER_DAY)])) == frozenset()


def test_the_tables_age_for_refs_holds_where_a_ref_has_none():
    refs = [tag("old", 1), tag("kept", 2, max_ref_age_ms=90 * MS_PER_DAY)]
    line = history(40 * DAY, 30 * DAY, DAY, refs=refs)
    assert expired(line, max_ref_age=10 * DAY) == {1}
    assert expired(line) == frozenset()


def test_main_never_ages_out():
    line = history(40 * DAY)
    assert expired(snapshots(line.entries, [main(1, max_ref_age_ms=1)]), max_ref_age=DAY) == frozenset()


def test_a_ref_to_a_snapshot_that_is_gone_keeps_nothing():
    assert expired(history(40 * DAY, DAY, refs=[tag("ghost", 99)])) == {1}


def test_what_no_ref_reaches_stays_while_it_is_young():
    entries = [entry(1, None, 40 * DAY), entry(2, 1, 2 * DAY), entry(3, 1, DAY), entry(4, 1, 20 * DAY)]
    assert expired(snapshots(entries, [main(3)])) == {1, 4}


def test_the_line_ends_where_a_parent_is_already_gone():
    entries = [entry(5, 4, 40 * DAY), entry(6, 5, DAY)]
    assert expired(snapshots(entries, [main(6)])) == {5}


@pytest.mark.parametrize("endless", [2**63 - 1, 10**17])
def test_ages_that_mean_for_ever_keep_everything_and_do_not_overflow(endless):
    line = history(4000 * DAY, DAY)
    refs = [main(2, max_snapshot_age_ms=endless), tag("release", 1, max_ref_age_ms=endless)]
    assert expired(snapshots(line.entries, refs)) == frozenset()
    assert expired(line, older_than=FOREVER) == frozenset()


def reference(found, older_than, retain_last, max_ref_age):
    """Iceberg's RemoveSnapshots as documented, implemented without regard for speed."""
    by_id = {item.snapshot_id: item for item in found.entries}

    def age(snapshot_id):
        return NOW - by_id[snapshot_id].committed_at

    def line(snapshot_id):
        return [] if snapshot_id not in by_id else [snapshot_id, *line(by_id[snapshot_id].parent_id)]

    def ref_lives(ref):
        limit = max_ref_age if ref.max_ref_age_ms is None else timedelta(milliseconds=ref.max_ref_age_ms)
        return ref.name == "main" or limit is None or age(ref.snapshot_id) <= limit

    living = [ref for ref in found.refs if ref.snapshot_id in by_id and ref_lives(ref)]
    kept = {ref.snapshot_id for ref in living}
    for ref in (ref for ref in living if ref.kind == "branch"):
        limit = older_than if ref.max_snapshot_age_ms is None else timedelta(milliseconds=ref.max_snapshot_age_ms)
        least = retain_last if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        for place, snapshot_id in enumerate(line(ref.snapshot_id)):
            if place >= least and age(snapshot_id) > limit:
                break
            kept.add(snapshot_id)
    reached = {snapshot_id for ref in living if ref.kind == "branch" for snapshot_id in line(ref.snapshot_id)}
    kept |= {snapshot_id for snapshot_id in by_id if snapshot_id not in reached and age(snapshot_id) <= older_than}
    return by_id.keys() - kept


days = st.integers(0, 20)
own_days = st.none() | days.map(lambda count: count * MS_PER_DAY)


@st.composite
def histories(draw):
    count = draw(st.integers(1, 12))
    entries = []
    age = draw(st.integers(0, 30))
    for number in range(1, count + 1):
        parent = draw(st.sampled_from([None, *range(1, number)])) if number > 1 else None
        age = max(age - draw(st.integers(0, 4)), 0)
        entries.append(entry(number, parent, age * DAY))
    heads = st.integers(1, count + 1)
    settings = {"max_ref_age_ms": own_days, "max_snapshot_age_ms": own_days}
    least = st.none() | st.integers(1, 4)
    refs = [main(draw(st.integers(1, count)), min_snapshots_to_keep=draw(least))]
    for number in range(draw(st.integers(0, 3))):
        own = {name: draw(values) for name, values in settings.items()}
        kind = draw(st.sampled_from([branch, tag]))
        refs.append(kind(f"ref{number}", draw(heads), min_snapshots_to_keep=draw(least), **own))
    return snapshots(entries, refs)


@given(histories(), days, st.integers(1, 4), st.none() | days.map(lambda count: count * DAY))
def test_expiry_is_what_a_plain_reading_of_icebergs_rules_says(found, older_than, retain_last, max_ref_age):
    made = expired(found, older_than=older_than * DAY, retain_last=retain_last, max_ref_age=max_ref_age)
    assert made == reference(found, older_than * DAY, retain_last, max_ref_age)


@given(histories(), days, st.integers(1, 4))
def test_the_head_of_main_and_every_living_ref_is_never_expired(found, older_than, retain_last):
    made = expired(found, older_than=older_than * DAY, retain_last=retain_last)
    assert not made & {ref.snapshot_id for ref in found.refs if ref.max_ref_age_ms is None}


@given(histories(), days, days, st.integers(1, 4))
def test_a_longer_retention_never_expires_more(found, one, other, retain_last):
    short, long = sorted((one, other))
    assert expired(found, older_than=long * DAY, retain_last=retain_last) <= expired(
        found, older_than=short * DAY, retain_last=retain_last
    )


@given(histories(), days, st.integers(1, 4))
def test_what_is_left_after_expiry_has_nothing_more_to_expire(found, older_than, retain_last):
    gone = expired(found, older_than=older_than * DAY, retain_last=retain_last)
    left = snapshots([item for item in found.entries if item.snapshot_id not in gone], found.refs)
    assert expired(left, older_than=older_than * DAY, retain_last=retain_last) == frozenset()
