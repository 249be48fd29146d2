from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import DAY, NOW, branch, deletes, history, partition, small_files, status, tag, with_deletes
from icepack.domain.health import (
    HealthReport,
    IssueCode,
    Severity,
    assess_health,
    count_excess_files,
    count_ideal_manifests,
    count_table_excess_files,
    get_max_ref_age,
    get_snapshot_age_limit,
)
from icepack.domain.serialization import from_json, from_json_text, to_json, to_json_text
from icepack.domain.status import ManifestStatus, MetadataStatus, SnapshotStatus, TableStatus
from icepack.domain.units import FOREVER, GIB, MIB


def issues(table):
    return {issue.code: issue for issue in assess_health(table, NOW).issues}


def only_issue(table):
    (issue,) = assess_health(table, NOW).issues
    return issue


def test_a_healthy_table_has_100_points_and_no_issue():
    report = assess_health(status(), NOW)
    assert (report.score, report.issues) == (100, ())
    assert (report.table, report.snapshot_id, report.assessed_at) == (status().table, 1, NOW)


def test_a_table_without_a_snapshot_is_healthy():
    empty = status(partition(data_files=0, bytes=0, records=0), snapshot_id=None, snapshots=SnapshotStatus())
    assert assess_health(replace(empty, partitions=()), NOW).score == 100
    assert assess_health(empty, NOW).score == 100


class TestSmallFiles:
    def test_many_small_files_are_an_issue_with_its_numbers(self):
        issue = issues(status(small_files(count=1200)))[IssueCode.SMALL_FILES]
        assert issue.sentence == (
            "1,200 of 1,200 data files are smaller than 32.0 MB (average 1.0 MB); compaction can remove 1,197 of them."
        )
        assert issue.evidence["excess_files"] == 1197
        assert issue.severity is Severity.CRITICAL

    @pytest.mark.parametrize(("count", "penalty"), [(26, 19.2), (51, 39.2), (101, 39.6)])
    def test_the_penalty_grows_with_the_share_and_the_number_in_excess(self, count, penalty):
        assert issues(status(small_files(count=count)))[IssueCode.SMALL_FILES].penalty == penalty

    def test_a_lone_small_file_in_every_partition_is_no_excess(self):
        table = status(*(small_files(f"d={day}", count=1) for day in range(100)))
        assert not assess_health(table, NOW).issues

    def test_a_partition_with_four_small_files_is_not_an_issue(self):
        assert not assess_health(status(*(small_files(f"d={day}", count=4) for day in range(100))), NOW).issues
        assert IssueCode.SMALL_FILES in issues(status(small_files(count=5)))

    def test_few_small_files_that_fill_a_whole_file_are_an_issue(self):
        table = status(small_files(count=3, size=30 * MIB), target_file_bytes=45 * MIB)
        assert count_table_excess_files(table) == 1
        assert IssueCode.SMALL_FILES in issues(table)

    def test_files_are_in_excess_only_beyond_what_their_bytes_need(self):
        assert count_excess_files(small_files(count=10, size=30 * MIB), 100 * MIB) == 7
        assert count_excess_files(small_files(count=2, size=70 * MIB), 100 * MIB) == 0
        assert count_excess_files(partition(), 0) == 0

    def test_few_small_files_beside_many_large_ones_cost_little(self):
        table = status(partition(data_files=1000, small_files=6, small_bytes=6 * MIB))
        assert assess_health(table, NOW).score == 100
        assert issues(table)[IssueCode.SMALL_FILES].severity is Severity.INFO

    @given(st.integers(5, 500), st.integers(1, 100))
    def test_more_small_files_never_raise_the_score(self, count, more):
        fewer, greater = (assess_health(status(small_files(count=n)), NOW).score for n in (count, count + more))
        assert greater <= fewer

    def test_partitions_that_disagree_with_the_totals_do_not_break_it(self):
        table = status(small_files(count=100))
        assert assess_health(replace(table, data=replace(table.data, count=0)), NOW).score == 0


class TestDeletePressure:
    def test_many_deletes_per_file_are_an_issue_with_its_numbers(self):
        issue = only_issue(status(with_deletes(count=10)))
        assert issue.code is IssueCode.DELETE_PRESSURE
        assert issue.sentence.startswith(
            "10 delete files with 100 rows apply to 10 data files; every read merges them (limits: 0.1 "
        )
        assert issue.evidence["ratio"] == 1

    def test_few_delete_files_with_many_rows_are_an_issue(self):
        heavy = partition(data_files=100, position_delete_files=1, delete_records=60)
        assert only_issue(status(heavy)).evidence["row_share"] == pytest.approx(0.06)

    @pytest.mark.parametrize(
        ("delete_files", "rows", "penalty"), [(20, 0, 13), (100, 0, 25), (300, 0, 25), (1, 100, 13), (1, 900, 25)]
    )
    def test_the_larger_of_delete_files_and_deleted_rows_counts_up_to_a_limit(self, delete_files, rows, penalty):
        row = partition(data_files=100, position_delete_files=delete_files, delete_records=rows)
        assert only_issue(status(row)).penalty == penalty

    @pytest.mark.parametrize("facts", [{"position_delete_files": 10}, {"delete_records": 50}])
    def test_deletes_at_the_limits_are_none(self, facts):
        row = partition(data_files=100, **{"position_delete_files": 1} | facts)
        assert not assess_health(status(row), NOW).issues

    def test_deletes_of_every_kind_count(self):
        row = partition(data_files=10, position_delete_files=1, equality_delete_files=1, deletion_vectors=1)
        assert only_issue(status(row)).evidence["delete_files"] == 3

    def test_dangling_deletes_do_not_count_as_delete_pressure(self):
        table = status(deletes=deletes([partition()], dangling=5))
        assert only_issue(table).code is IssueCode.DANGLING_DELETES


def test_dangling_deletes_are_an_issue_that_counts_them():
    issue = only_issue(status(deletes=deletes([partition()], dangling=1234)))
    assert issue.sentence.startswith("1,234 delete files no longer apply")
    assert issue.penalty == 10


class TestSnapshots:
    def test_more_than_a_hundred_snapshots_are_an_issue(self):
        assert not assess_health(status(snapshots=history(*[DAY] * 100)), NOW).issues
        issue = only_issue(status(snapshots=history(*[DAY] * 101)))
        assert issue.code is IssueCode.TOO_MANY_SNAPSHOTS
        assert issue.sentence.startswith("101 snapshots are kept; more than 100 ")

    def test_snapshots_past_their_retention_are_an_issue_with_their_age(self):
        issue = only_issue(status(snapshots=history(30 * DAY, 8 * DAY, 6 * DAY)))
        assert issue.code is IssueCode.SNAPSHOTS_PAST_RETENTION
        assert issue.sentence.startswith("2 snapshots are older than the retention of 7d (oldest: 30d) and keep ")
        assert issue.evidence == {"snapshots": 2, "oldest_days": 30, "limit_days": 7}

    @pytest.mark.parametrize(("old", "penalty"), [(1, 5.1), (50, 10), (100, 15), (300, 15)])
    def test_each_old_snapshot_costs_a_little_up_to_a_limit(self, old, penalty):
        found = issues(status(snapshots=history(*[30 * DAY] * old, DAY)))
        assert found[IssueCode.SNAPSHOTS_PAST_RETENTION].penalty == penalty

    @pytest.mark.parametrize(("count", "penalty"), [(120, 6), (200, 10), (400, 10)])
    def test_each_snapshot_too_many_costs_a_little_up_to_a_limit(self, count, penalty):
        assert only_issue(status(snapshots=history(*[DAY] * count))).penalty == penalty

    def test_the_tables_own_retention_counts(self):
        assert not assess_health(status(snapshots=history(30 * DAY, DAY), properties=keep(age_days=40)), NOW).issues
        assert assess_health(status(snapshots=history(3 * DAY, DAY), properties=keep(age_days=2)), NOW).issues

    def test_snapshots_the_table_wants_to_keep_by_count_are_no_issue(self):
        properties = {"history.expire.min-snapshots-to-keep": "3"}
        assert not assess_health(status(snapshots=history(30 * DAY, 20 * DAY, DAY), properties=properties), NOW).issues

    def test_what_branches_and_tags_keep_is_no_issue(self):
        refs = [tag("release", 1), branch("audit", 2)]
        assert not assess_health(status(snapshots=history(30 * DAY, 20 * DAY, DAY, refs=refs)), NOW).issues

    def test_a_tag_past_the_tables_age_for_refs_keeps_nothing(self):
        line = history(30 * DAY, DAY, refs=[tag("release", 1)])
        table = status(snapshots=line, properties={"history.expire.max-ref-age-ms": "86400000"})
        assert get_max_ref_age(table) == DAY
        assert only_issue(table).code is IssueCode.SNAPSHOTS_PAST_RETENTION

    def test_an_endless_retention_is_no_overflow(self):
        table = status(snapshots=history(4000 * DAY, DAY), properties=keep(ms=2**63 - 1))
        assert get_snapshot_age_limit(table) == FOREVER
        assert not assess_health(table, NOW).issues

    def test_a_retention_that_is_no_number_is_read_as_the_default(self):
        assert get_snapshot_age_limit(status(properties=keep(ms="soon"))) == timedelta(days=7)

    def test_only_the_current_snapshot_may_be_any_age(self):
        assert not assess_health(status(snapshots=history(900 * DAY)), NOW).issues


def keep(age_days=0, ms=None):
    return {"history.expire.max-snapshot-age-ms": str(age_days * 86_400_000 if ms is None else ms)}


class TestManifests:
    def test_more_than_ten_manifests_where_one_would_do_are_an_issue(self):
        few, many = (ManifestStatus(count=count, bytes=MIB, entries=33) for count in (10, 11))
        assert not assess_health(status(manifests=few), NOW).issues
        issue = only_issue(status(manifests=many))
        assert issue.code is IssueCode.FRAGMENTED_MANIFESTS
        assert issue.sentence.startswith(
            "11 manifests hold 3.0 files each; 1 would be enough at the target size of 8.0 MB."
        )

    @pytest.mark.parametrize(("count", "penalty"), [(11, 6), (51, 10), (101, 15), (500, 15)])
    def test_each_manifest_too_many_costs_a_little_up_to_a_limit(self, count, penalty):
        assert only_issue(status(manifests=ManifestStatus(count=count, bytes=MIB))).penalty == penalty

    def test_many_manifests_that_are_full_are_no_issue(self):
        assert not assess_health(
            status(manifests=ManifestStatus(count=100, bytes=100 * 8 * MIB, entries=10)), NOW
        ).issues

    def test_the_ideal_counts_data_and_deletes_apart(self):
        assert count_ideal_manifests(status(manifests=ManifestStatus(count=5, bytes=5))) == 1
        assert count_ideal_manifests(status(manifests=ManifestStatus(count=5, bytes=5, delete_manifests=2))) == 2
        assert count_ideal_manifests(status(manifests=ManifestStatus(count=5, bytes=24 * MIB + 1))) == 4

    def test_a_manifest_over_twice_its_target_is_an_issue(self):
        at, over = (ManifestStatus(count=1, bytes=size, largest_bytes=size) for size in (16 * MIB, 16 * MIB + 1))
        assert not assess_health(status(manifests=at), NOW).issues
        issue = only_issue(status(manifests=over))
        assert issue.code is IssueCode.OVERSIZED_MANIFESTS
        assert "16.0 MB, more than twice the target of 8.0 MB" in issue.sentence

    def test_a_target_of_nothing_divides_by_nothing(self):
        assert assess_health(status(manifests=ManifestStatus(count=1, bytes=5, target_bytes=0)), NOW).score == 100


class TestMetadata:
    def test_a_large_or_long_logged_metadata_file_is_an_issue(self):
        assert not assess_health(status(metadata=MetadataStatus(file_bytes=8 * MIB, log_length=100)), NOW).issues
        for bloated in (MetadataStatus(file_bytes=8 * MIB + 1), MetadataStatus(log_length=101)):
            assert only_issue(status(metadata=bloated)).code is IssueCode.METADATA_BLOAT

    def test_the_sentence_has_the_numbers(self):
        issue = only_issue(status(metadata=MetadataStatus(file_bytes=9 * MIB, log_length=1500)))
        assert "9.0 MB and lists 1,500 earlier versions (limits: 8.0 MB, 100 versions)" in issue.sentence


class TestSkew:
    def skewed(self, largest, others=4):
        rows = [partition(f"p={number}", bytes=100 * MIB) for number in range(others)]
        return status(*rows, partition("p=x", bytes=largest))

    def test_a_partition_of_many_times_the_median_is_an_issue(self):
        issue = only_issue(self.skewed(2000 * MIB))
        assert issue.code is IssueCode.SKEWED_PARTITIONS
        assert issue.sentence.startswith("The largest of 5 partitions is 20 times the median size (limit: 10)")

    def test_ten_times_the_median_is_none(self):
        assert not assess_health(self.skewed(1000 * MIB), NOW).issues

    def test_few_partitions_are_none(self):
        assert not assess_health(self.skewed(2000 * MIB, others=3), NOW).issues

    def test_a_largest_partition_of_less_than_a_file_is_none(self):
        rows = [partition(f"p={number}", bytes=MIB) for number in range(5)]
        assert not assess_health(status(*rows, partition("p=x", bytes=500 * MIB)), NOW).issues

    def test_empty_partitions_divide_by_nothing(self):
        rows = [partition(f"p={number}", bytes=0) for number in range(5)]
        assert only_issue(status(*rows, partition("p=x", bytes=GIB))).code is IssueCode.SKEWED_PARTITIONS


class TestStaleCompaction:
    def test_small_files_without_any_compaction_are_stale(self):
        issue = issues(status(small_files(count=11)))[IssueCode.STALE_COMPACTION]
        assert issue.sentence == "Never compacted, and small files are accumulating."

    def test_the_sentence_says_when_the_last_compaction_was(self):
        table = status(small_files(count=11), last_compaction_at=NOW - 9 * DAY)
        issue = issues(table)[IssueCode.STALE_COMPACTION]
        assert issue.sentence.startswith("Last compacted 9d ago (limit: 7d)")
        assert issue.evidence["days_since"] == 9

    def test_a_recent_compaction_is_not_stale(self):
        table = status(small_files(count=11), last_compaction_at=NOW - 7 * DAY)
        assert IssueCode.STALE_COMPACTION not in issues(table)

    def test_a_table_with_little_to_compact_is_never_overdue(self):
        assert IssueCode.STALE_COMPACTION not in issues(status(small_files(count=10)))
        assert not assess_health(status(), NOW).issues


def unhealthy_table():
    rows = [small_files("p=1", count=300), with_deletes("p=2", count=100)]
    return status(
        *rows,
        *(partition(f"p={number}", bytes=MIB) for number in range(3, 9)),
        deletes=deletes(rows, dangling=50),
        snapshots=history(*[30 * DAY] * 300, DAY),
        manifests=ManifestStatus(count=200, bytes=20 * MIB, largest_bytes=17 * MIB, entries=300),
        metadata=MetadataStatus(file_bytes=20 * MIB),
    )


def test_every_issue_can_appear_at_once_and_the_score_stays_at_0():
    report = assess_health(unhealthy_table(), NOW)
    assert {issue.code for issue in report.issues} == set(IssueCode)
    assert report.score == 0
    assert report.has(IssueCode.SMALL_FILES)
    assert not assess_health(status(), NOW).has(IssueCode.SMALL_FILES)


def test_the_worst_issue_comes_first_and_severity_follows_the_penalty():
    found = assess_health(unhealthy_table(), NOW).issues
    penalties = [issue.penalty for issue in found]
    assert penalties == sorted(penalties, reverse=True)
    assert all((issue.severity is Severity.CRITICAL) == (issue.penalty >= 20) for issue in found)
    assert all((issue.severity is Severity.INFO) == (issue.penalty < 5) for issue in found)


def test_the_sentence_of_every_issue_has_a_number_and_ends_with_a_full_stop():
    for issue in assess_health(unhealthy_table(), NOW).issues:
        assert issue.sentence.endswith(".")
        assert issue.evidence
        assert any(letter.isdigit() for letter in issue.sentence) or issue.code is IssueCode.STALE_COMPACTION


def test_a_report_survives_json():
    report = assess_health(unhealthy_table(), NOW)
    assert from_json(HealthReport, to_json(report)) == report
    assert from_json_text(HealthReport, to_json_text(report)) == report


def test_a_status_survives_json():
    table = unhealthy_table()
    assert from_json(TableStatus, to_json(table)) == table
    assert from_json_text(TableStatus, to_json_text(table)) == table


counts = st.integers(0, 1000)


@st.composite
def tables(draw):
    rows = [
        partition(
            f"p={number}",
            data_files=(files := draw(st.integers(1, 500))),
            bytes=draw(st.integers(0, 10**12)),
            records=draw(counts),
            small_files=(small := draw(st.integers(0, files))),
            small_bytes=small * draw(st.integers(0, 32 * MIB)),
            position_delete_files=draw(counts),
            equality_delete_files=draw(counts),
            delete_records=draw(counts),
        )
        for number in range(draw(st.integers(1, 6)))
    ]
    return status(
        *rows,
        deletes=deletes(rows, dangling=draw(counts)),
        snapshots=history(*[draw(counts) * DAY] * draw(st.integers(1, 150))),
        manifests=ManifestStatus(
            count=draw(counts),
            bytes=draw(counts) * MIB,
            largest_bytes=draw(counts) * MIB,
            delete_manifests=draw(counts),
        ),
        metadata=MetadataStatus(file_bytes=draw(counts) * MIB, log_length=draw(counts)),
        target_file_bytes=draw(st.integers(0, GIB)),
        last_compaction_at=draw(st.none() | counts.map(lambda days: NOW - days * DAY)),
    )


@given(tables())
def test_any_table_has_a_score_from_0_to_100_that_its_issues_explain(table):
    report = assess_health(table, NOW)
    assert 0 <= report.score <= 100
    assert report.score == max(0, round(100 - sum(issue.penalty for issue in report.issues)))
    assert all(issue.penalty >= 0 for issue in report.issues)
    assert len({issue.code for issue in report.issues}) == len(report.issues)
