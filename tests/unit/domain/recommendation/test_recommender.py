from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import (
    DAY,
    HOUR,
    NOW,
    deletes,
    entry,
    history,
    key,
    main,
    partition,
    past_run,
    recommended,
    situation,
    small_files,
    snapshots,
    status,
    tag,
    with_deletes,
)
from icepack.domain.actions import ActionKind, ExpireSnapshots, Layout, RemoveOrphanFiles, Strategy
from icepack.domain.health import IssueCode, assess_health
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.policy import DEFAULT_ACTIONS, Policy
from icepack.domain.recommendation import Recommendation, choose_strategy, estimate_conflict_probability
from icepack.domain.serialization import from_json, from_json_text, to_json, to_json_text
from icepack.domain.status import Cadence, ManifestStatus, MetadataStatus, SnapshotStatus
from icepack.domain.units import GIB, MIB

COMPACT, POSITION, MANIFESTS, EXPIRE, ORPHANS, STATS = ActionKind
ALL_ACTIONS = Policy(actions=tuple(ActionKind))


def kinds(recommendation):
    return [action.kind for action in recommendation.actions]


def the(kind, recommendation):
    return next(action for action in recommendation.actions if action.kind is kind)


def why_not(kind, recommendation):
    return next(skipped.reason for skipped in recommendation.skipped if skipped.kind is kind)


def unhealthy_table(**facts):
    rows = [small_files("p=1"), with_deletes("p=2"), with_deletes("p=3", position_delete_files=40, data_files=1000)]
    defaults = {
        "deletes": deletes(rows, dangling=3),
        "snapshots": history(30 * DAY, 20 * DAY, HOUR),
        "snapshot_id": 3,
        "manifests": ManifestStatus(count=200, bytes=MIB, entries=100),
        "partition_spec": "identity(p)",
    }
    return status(*rows, **defaults | facts)


class TestRecommendation:
    def test_an_unhealthy_table_gets_every_action_in_the_order_they_run(self):
        assert kinds(recommended(unhealthy_table(), policy=ALL_ACTIONS)) == list(ActionKind)

    def test_there_is_one_decision_for_every_action_and_each_has_a_reason(self):
        for table in (unhealthy_table(), status()):
            made = recommended(table)
            assert {item.kind for item in (*made.actions, *made.skipped)} == set(ActionKind)
            assert len(made.actions) + len(made.skipped) == len(ActionKind)
            assert all(item.reason.endswith(".") for item in (*made.actions, *made.skipped))

    def test_a_healthy_table_that_was_searched_for_orphans_needs_nothing(self):
        made = recommended(status(), history=[past_run(ORPHANS)])
        assert kinds(made) == []

    def test_a_policy_that_is_off_leaves_the_table_alone(self):
        made = recommended(unhealthy_table(), policy=Policy(enabled=False))
        assert kinds(made) == []
        assert {skipped.reason for skipped in made.skipped} == {"The policy excludes this table."}

    @pytest.mark.parametrize("kind", ActionKind)
    def test_an_action_that_is_switched_off_is_skipped_and_the_others_are_not(self, kind):
        others = tuple(other for other in ActionKind if other is not kind)
        made = recommended(unhealthy_table(), policy=Policy(actions=others))
        assert kinds(made) == list(others)
        assert why_not(kind, made) == "Disabled by policy."

    def test_statistics_are_off_by_default(self):
        assert STATS not in kinds(recommended(unhealthy_table()))

    def test_its_cost_is_the_sum_of_its_actions(self):
        made = recommended(unhealthy_table())
        assert made.cost.dollars == pytest.approx(sum(action.cost.dollars for action in made.actions))
        assert replace(made, actions=()).cost == CostEstimate()

    def test_it_carries_the_snapshot_it_was_made_from(self):
        made = recommended(unhealthy_table())
        assert (made.snapshot_id, made.made_at, made.table) == (3, NOW, unhealthy_table().table)

    def test_it_survives_json(self):
        made = recommended(unhealthy_table(), policy=ALL_ACTIONS)
        assert from_json(Recommendation, to_json(made)) == made
        assert from_json_text(Recommendation, to_json_text(made)) == made

    def test_an_empty_table_gets_at_most_a_search_for_orphans(self):
        empty = replace(status(snapshot_id=None, snapshots=SnapshotStatus()), partitions=())
        made = recommended(empty, policy=ALL_ACTIONS)
        assert kinds(made) == [ORPHANS]
        assert why_not(STATS, made) == "The table has no snapshot yet."


class TestCompaction:
    def test_small_files_are_compacted_with_the_tables_own_sizes(self):
        table = status(small_files(count=100), target_file_bytes=64 * MIB, small_file_bytes=16 * MIB)
        made = the(COMPACT, recommended(table))
        assert made.reason == "100 files are small (below 16.0 MB)."
        assert (made.action.target_file_bytes, made.action.small_file_bytes) == (64 * MIB, 16 * MIB)
        assert made.action.min_input_files == 5
        assert made.action.delete_file_threshold is None
        assert (made.effect.files_removed, made.effect.bytes_rewritten) == (98, 100 * MIB)
        assert made.cost.get_requests == 200

    def test_the_policys_layout_and_columns_are_used(self):
        policy = Policy(layout=Layout.ZORDER, columns=("a", "b"), partial_progress=True, max_cost=5.0)
        action = the(COMPACT, recommended(status(small_files()), policy=policy)).action
        assert (action.layout, action.columns, action.partial_progress) == (Layout.ZORDER, ("a", "b"), True)
        assert action.max_cost_dollars == 5.0

    def test_too_few_small_files_are_left_and_it_says_how_many_it_takes(self):
        made = recommended(status(small_files(count=4)))
        assert why_not(COMPACT, made) == (
            "No partition has 5 or more files smaller than 32.0 MB, or more than 0.1 delete files per data file."
        )
        assert COMPACT in kinds(recommended(status(small_files(count=4)), policy=Policy(min_input_files=4)))

    def test_a_lone_small_file_is_left_whatever_the_policy(self):
        assert COMPACT not in kinds(recommended(status(small_files(count=1)), policy=Policy(min_input_files=1)))

    def test_few_small_files_that_fill_a_whole_file_are_compacted(self):
        table = status(small_files(count=3, size=30 * MIB), target_file_bytes=45 * MIB)
        assert COMPACT in kinds(recommended(table))

    def test_files_that_a_rewrite_would_not_make_fewer_are_left(self):
        stuck = small_files("p=1", count=2, size=30 * MIB)
        table = status(stuck, small_files("p=2"), target_file_bytes=41 * MIB)
        (selection,) = the(COMPACT, recommended(table)).action.partitions
        assert selection.key == key("p=2")

    def test_only_unhealthy_partitions_are_chosen_and_named_with_their_values(self):
        rows = [partition(f"p={number}") for number in range(10)]
        sick = small_files("p=x")
        made = the(COMPACT, recommended(status(*rows, sick, partition_spec="identity(p)")))
        assert [(choice.key, choice.values) for choice in made.action.partitions] == [(sick.key, sick.values)]
        assert "in 1 of 11 partitions" in made.reason

    def test_a_table_with_only_unhealthy_partitions_is_compacted_as_a_whole(self):
        table = status(*(small_files(f"p={number}") for number in range(3)))
        assert the(COMPACT, recommended(table)).action.partitions == ()

    def test_the_worst_partition_comes_first(self):
        rows = [small_files("p=1", count=10), small_files("p=2", count=90), small_files("p=3", count=50)]
        chosen = the(COMPACT, recommended(status(*rows, partition("p=4")))).action.partitions
        assert [choice.key.path for choice in chosen] == ["p=2", "p=3", "p=1"]

    def test_a_crowded_partition_is_compacted_though_none_of_its_files_is_small(self):
        crowd = partition("p=1", data_files=2000, bytes=2000 * 100 * MIB)
        made = the(COMPACT, recommended(status(crowd, partition("p=2"))))
        assert made.action.small_file_bytes == 384 * MIB
        assert made.effect.files_removed == 2000 - 391
        assert COMPACT not in kinds(recommended(status(crowd), policy=Policy(max_files_per_partition=2000)))

    def test_many_files_that_are_nearly_full_are_no_crowd(self):
        full = partition(data_files=2000, bytes=2000 * 400 * MIB)
        assert COMPACT not in kinds(recommended(status(full)))

    def test_only_the_partitions_that_the_filter_leaves_are_compacted(self):
        rows = [small_files("p=1"), small_files("p=2")]
        made = recommended(status(*rows), matching=frozenset({key("p=2")}))
        assert [choice.key.path for choice in the(COMPACT, made).action.partitions] == ["p=2"]
        assert COMPACT not in kinds(recommended(status(*rows), matching=frozenset()))

    def test_what_costs_more_than_it_saves_is_skipped_with_both_numbers(self):
        made = recommended(status(small_files(count=100)), policy=Policy(scans_per_day=0))
        reason = why_not(COMPACT, made)
        assert reason.startswith("Rewriting 100.0 MB to remove 99 files would cost $0.0")
        assert reason.endswith("and save $0.0000 per month (estimates).")

    def test_deletes_are_applied_even_when_no_request_is_saved(self):
        assert COMPACT in kinds(recommended(status(with_deletes()), policy=Policy(scans_per_day=0)))

    def test_a_busy_table_makes_a_conflict_likelier(self):
        quiet, busy = (
            the(COMPACT, recommended(status(small_files(), cadence=Cadence(row_changes_per_hour=rate))))
            for rate in (0, 60)
        )
        assert quiet.conflict_probability == 0
        assert 0 < busy.conflict_probability < 1

    def test_a_compaction_is_advised_on_lambda_and_no_other_action_is(self):
        made = recommended(unhealthy_table())
        advice = the(COMPACT, made).lambda_advice(None)
        assert advice is not None
        assert advice.fits
        assert the(EXPIRE, made).lambda_advice(None) is None


class TestDeletes:
    def test_files_with_many_deletes_are_rewritten(self):
        made = the(COMPACT, recommended(status(with_deletes(count=10))))
        assert made.action.strategy is Strategy.DELETE_FILES
        assert made.action.delete_file_threshold == 1
        assert made.effect.delete_files_removed == 10
        assert made.reason == "10 files have deletes; 10 delete files can be applied."

    def test_few_deletes_are_left(self):
        row = with_deletes(count=100, position_delete_files=10, delete_records=0)
        assert COMPACT not in kinds(recommended(status(row)))

    def test_deletes_of_other_files_do_not_count(self):
        dangling = partition(position_delete_files=5, delete_records=900, files_with_deletes=0)
        assert COMPACT not in kinds(recommended(status(dangling)))

    def test_few_delete_files_with_many_rows_are_applied(self):
        row = with_deletes(count=100, position_delete_files=2, delete_records=6000)
        assert COMPACT in kinds(recommended(status(row)))
        assert COMPACT not in kinds(recommended(status(row), policy=Policy(fragment_ratio_threshold=0.5)))

    @given(st.integers(1, 100), st.integers(1, 40), st.integers(0, 10_000))
    def test_the_default_policy_compacts_whatever_health_reports_as_delete_pressure(self, files, delete_files, rows):
        row = with_deletes(count=files, position_delete_files=delete_files, delete_records=rows)
        table = status(row)
        pressed = assess_health(table, NOW).has(IssueCode.DELETE_PRESSURE)
        assert (COMPACT in kinds(recommended(table))) == pressed

    def test_deletes_that_are_too_many_once_small_files_are_merged_are_applied_with_them(self):
        row = small_files(count=100, position_delete_files=5, files_with_deletes=3, bytes_with_deletes=3 * MIB)
        made = the(COMPACT, recommended(status(row)))
        assert made.action.delete_file_threshold == 1
        left = the(COMPACT, recommended(status(row), policy=Policy(fragment_ratio_threshold=5)))
        assert left.action.delete_file_threshold is None

    def test_oversized_files_with_deletes_never_count_as_files_lost(self):
        row = with_deletes(count=1, bytes=3 * GIB, bytes_with_deletes=3 * GIB)
        assert the(COMPACT, recommended(status(row))).effect.files_removed == 0

    def test_a_partition_with_small_files_and_deletes_is_rewritten_once(self):
        row = small_files(count=100, position_delete_files=50, files_with_deletes=50, bytes_with_deletes=50 * MIB)
        made = the(COMPACT, recommended(status(row)))
        assert made.effect.bytes_rewritten == 100 * MIB
        assert made.effect.delete_files_removed == 50
        assert made.reason == "100 files are small (below 32.0 MB) or have deletes; 50 delete files can be applied."

    def test_where_deletes_are_applied_a_pair_of_small_files_is_merged_too(self):
        assert the(COMPACT, recommended(status(with_deletes()))).action.min_input_files == 2
        eager = Policy(min_input_files=1)
        assert the(COMPACT, recommended(status(with_deletes()), policy=eager)).action.min_input_files == 1


class TestStrategy:
    def test_the_policys_strategy_is_used(self):
        for strategy in Strategy:
            assert choose_strategy(situation(status(small_files()), policy=Policy(strategy=strategy))) is strategy

    def test_a_table_partitioned_by_time_is_a_time_series(self):
        assert choose_strategy(situation(status(partition("d=1", ends_at=NOW)))) is Strategy.TIME_SERIES

    def test_deletes_alone_ask_for_delete_files_and_small_files_for_both(self):
        assert choose_strategy(situation(status(with_deletes()))) is Strategy.DELETE_FILES
        assert choose_strategy(situation(status(with_deletes("p=1"), small_files("p=2")))) is Strategy.SMALL_FILES
        assert choose_strategy(situation(status())) is Strategy.SMALL_FILES

    def test_delete_files_leaves_small_files_alone(self):
        rows = [small_files("p=1"), with_deletes("p=2")]
        made = the(COMPACT, recommended(status(*rows), policy=Policy(strategy=Strategy.DELETE_FILES)))
        assert [choice.key.path for choice in made.action.partitions] == ["p=2"]
        assert made.effect.bytes_rewritten == rows[1].bytes_with_deletes

    def test_time_series_leaves_open_partitions_alone(self):
        closed = small_files("d=1", ends_at=NOW - 2 * HOUR)
        still_open = small_files("d=2", ends_at=NOW + 2 * HOUR)
        made = recommended(status(closed, still_open))
        assert [choice.key.path for choice in the(COMPACT, made).action.partitions] == ["d=1"]

    def test_it_says_so_when_only_open_partitions_have_small_files(self):
        made = recommended(status(partition("d=1", ends_at=NOW - DAY), small_files("d=2", ends_at=NOW + DAY)))
        assert why_not(COMPACT, made) == (
            "Only open partitions have small files (latest: d=2), and open partitions are not compacted."
        )

    def test_healthy_open_partitions_are_not_named_as_the_reason(self):
        made = recommended(status(partition("d=1", ends_at=NOW - DAY), partition("d=2", ends_at=NOW + DAY)))
        assert why_not(COMPACT, made).startswith("No partition has 5 or more files")

    @pytest.mark.parametrize(("ended", "compacted"), [(HOUR, True), (HOUR - timedelta(seconds=1), False)])
    def test_a_partition_is_open_until_its_grace_is_over(self, ended, compacted):
        made = recommended(status(small_files("d=1", ends_at=NOW - ended), partition("d=2")))
        assert (COMPACT in kinds(made)) is compacted

    def test_a_partition_without_a_span_of_time_is_closed(self):
        made = recommended(status(small_files("d=null"), partition("d=1", ends_at=NOW + DAY)))
        assert COMPACT in kinds(made)


class TestMaxCost:
    def test_an_action_over_the_limit_is_skipped_with_both_numbers(self):
        made = recommended(status(small_files()), policy=Policy(max_cost=0.00001))
        reason = why_not(COMPACT, made)
        assert "over the limit of $0.0000 (max_cost)" in reason

    def test_every_action_stays_within_the_limit(self):
        for limit in (0.0, 0.00002, 0.001, 1.0):
            made = recommended(unhealthy_table(), policy=Policy(actions=tuple(ActionKind), max_cost=limit))
            assert all(action.cost.dollars <= limit for action in made.actions)

    def test_the_worst_partitions_are_compacted_within_the_cost_limit(self):
        rows = [small_files(f"p={number}", count=count) for number, count in enumerate((90, 60, 30))]
        whole = the(COMPACT, recommended(status(*rows))).cost.dollars
        made = the(COMPACT, recommended(status(*rows), policy=Policy(max_cost=whole * 0.9)))
        assert [choice.key.path for choice in made.action.partitions] == ["p=0", "p=1"]
        assert made.cost.dollars <= whole * 0.9

    def test_a_limit_that_pays_for_all_changes_nothing_but_the_limit(self):
        free = recommended(status(small_files()))
        limited = recommended(status(small_files()), policy=Policy(max_cost=1000))
        assert the(COMPACT, limited).effect == the(COMPACT, free).effect


class TestPositionDeletes:
    def few_per_file(self, path, position_delete_files):
        """Too few deletes to rewrite the data for."""
        return with_deletes(path, count=1000, position_delete_files=position_delete_files, delete_records=10)

    def test_a_partition_with_enough_position_deletes_has_them_merged(self):
        made = the(POSITION, recommended(status(self.few_per_file("p=1", 20))))
        assert made.reason == "20 position delete files can be merged."
        assert made.effect.delete_files_removed == 19
        assert not made.action.remove_dangling
        assert made.action.options == {"min-input-files": "5"}
        assert made.conflict_probability == 0

    def test_exactly_enough_are_merged(self):
        assert POSITION in kinds(recommended(status(self.few_per_file("p=1", 5))))

    def test_a_few_in_each_of_many_partitions_cannot_be_merged(self):
        made = recommended(status(*(self.few_per_file(f"p={number}", 4) for number in range(10))))
        assert why_not(POSITION, made) == (
            "40 position delete files, but no partition has the 5 needed to merge (min_input_files)."
        )

    def test_a_lone_position_delete_file_is_never_merged(self):
        made = recommended(status(self.few_per_file("p=1", 1)), policy=Policy(min_input_files=1))
        assert POSITION not in kinds(made)

    def test_without_position_deletes_it_says_so(self):
        assert why_not(POSITION, recommended()) == "No position deletes."

    def test_a_filter_without_position_deletes_says_so(self):
        made = recommended(status(self.few_per_file("p=1", 20)), matching=frozenset({key("p=2")}))
        assert why_not(POSITION, made) == "No position deletes in the partitions that match the filter."

    def test_what_compaction_applies_is_not_merged_first(self):
        alone = recommended(status(with_deletes(count=50)))
        assert kinds(alone) == [COMPACT, ORPHANS]
        assert why_not(POSITION, alone) == "The planned compaction applies all position deletes."
        made = recommended(status(with_deletes("p=1", count=50), self.few_per_file("p=2", 20)))
        assert the(POSITION, made).reason == "20 position delete files can be merged."

    def test_equality_deletes_that_compaction_applies_do_not_hide_position_deletes(self):
        many = with_deletes("p=1", position_delete_files=0, equality_delete_files=100)
        made = recommended(status(many, self.few_per_file("p=2", 20)))
        assert COMPACT in kinds(made)
        assert POSITION in kinds(made)

    def test_a_compaction_of_small_files_alone_applies_no_deletes(self):
        light = self.few_per_file("p=1", 20)
        row = replace(light, small_files=10, small_bytes=10 * MIB)
        made = recommended(status(row))
        assert the(COMPACT, made).action.delete_file_threshold is None
        assert the(POSITION, made).reason == "20 position delete files can be merged."

    def test_dangling_deletes_are_removed_however_few(self):
        made = the(POSITION, recommended(status(deletes=deletes([partition()], dangling=1))))
        assert made.reason == "1 delete file no longer applies to any data file."
        assert made.action.remove_dangling
        assert made.effect.delete_files_removed == 1

    def test_both_reasons_are_given(self):
        row = self.few_per_file("p=1", 20)
        made = the(POSITION, recommended(status(row, deletes=deletes([row], dangling=3))))
        assert made.reason == (
            "3 delete files no longer apply to any data file, and 20 position delete files can be merged."
        )

    def test_the_policys_filter_applies(self):
        rows = [self.few_per_file("p=1", 20), self.few_per_file("p=2", 4)]
        policy = Policy(partition_filter="p = '2'")
        made = recommended(status(*rows), policy=policy, matching=frozenset({key("p=2")}))
        assert POSITION not in kinds(made)
        made = recommended(status(*rows), policy=policy, matching=frozenset({key("p=1")}))
        assert the(POSITION, made).action.partition_filter == "p = '2'"


class TestManifests:
    def test_fragmented_manifests_are_rewritten(self):
        made = the(MANIFESTS, recommended(status(manifests=ManifestStatus(count=200, bytes=MIB))))
        assert made.reason == "200 manifests can be merged into 1."
        assert made.effect.manifests_removed == 199

    def test_an_oversized_manifest_is_split(self):
        large = ManifestStatus(count=1, bytes=20 * MIB, largest_bytes=20 * MIB)
        made = the(MANIFESTS, recommended(status(manifests=large)))
        assert made.reason == (
            "The largest manifest is 20.0 MB, more than twice the target of 8.0 MB, and can be split."
        )
        assert made.effect.manifests_removed == 0

    def test_a_few_are_left(self):
        made = recommended(status(manifests=ManifestStatus(count=10, bytes=MIB)))
        assert why_not(MANIFESTS, made) == "Manifests are healthy (10, limit 10)."

    def test_the_manifest_that_a_compaction_will_add_counts(self):
        made = recommended(status(small_files(), manifests=ManifestStatus(count=10, bytes=MIB)))
        assert the(MANIFESTS, made).reason == "11 manifests can be merged into 1."


class TestExpiry:
    def test_snapshots_past_the_policys_retention_are_expired(self):
        made = the(EXPIRE, recommended(status(snapshots=history(30 * DAY, 20 * DAY, DAY), snapshot_id=3)))
        assert made.action == ExpireSnapshots(older_than=7 * DAY, retain_last=1)
        assert made.reason == "2 of 3 snapshots are past the retention of 7d."
        assert made.effect.snapshots_removed == 2
        assert (made.cost.get_requests, made.cost.put_requests) == (2 * 2, 1)

    def test_one_expired_snapshot_is_singular(self):
        made = the(EXPIRE, recommended(status(snapshots=history(30 * DAY, DAY), snapshot_id=2)))
        assert made.reason == "1 of 2 snapshots is past the retention of 7d."

    def test_the_policys_retention_and_count_decide(self):
        table = status(snapshots=history(30 * DAY, 20 * DAY, DAY), snapshot_id=3)
        for policy in (Policy(snapshot_retention=40 * DAY), Policy(min_snapshots_to_keep=3)):
            made = recommended(table, policy=policy)
            assert why_not(EXPIRE, made).startswith("No expired snapshots (snapshot_retention: ")

    def test_what_a_tag_retains_is_not_expired(self):
        table = status(snapshots=history(30 * DAY, DAY, refs=[tag("release", 1)]), snapshot_id=2)
        assert EXPIRE not in kinds(recommended(table))
        aged = replace(table, properties={"history.expire.max-ref-age-ms": "1000"})
        assert EXPIRE in kinds(recommended(aged))

    def test_an_old_head_can_go_once_a_compaction_has_replaced_it(self):
        old = {"snapshots": history(30 * DAY), "snapshot_id": 1}
        assert EXPIRE not in kinds(recommended(status(**old)))
        made = the(EXPIRE, recommended(status(small_files(), **old)))
        assert made.effect.snapshots_removed == 1

    def test_what_compaction_will_commit_counts_among_those_to_keep(self):
        table = status(small_files(), snapshots=history(30 * DAY, 20 * DAY), snapshot_id=2)
        made = the(EXPIRE, recommended(table, policy=Policy(min_snapshots_to_keep=2)))
        assert made.effect.snapshots_removed == 1

    def test_a_table_without_garbage_collection_keeps_its_files(self):
        made = recommended(unhealthy_table(properties={"gc.enabled": "false"}))
        for kind in (EXPIRE, ORPHANS):
            assert why_not(kind, made) == "The table property gc.enabled is false."
        assert COMPACT in kinds(made)


class TestOrphans:
    def test_a_table_never_searched_is_searched_with_the_policys_limits(self):
        policy = Policy(orphan_retention=3 * DAY, max_orphan_files=10, max_orphan_share=0.1)
        made = the(ORPHANS, recommended(policy=policy))
        assert made.action == RemoveOrphanFiles(older_than=3 * DAY, max_files=10, max_share=0.1)
        assert made.reason == "Never searched for orphan files."

    def test_the_storage_is_searched_again_after_the_interval_and_not_before(self):
        soon = recommended(history=[past_run(ORPHANS, ago=6 * DAY)])
        assert why_not(ORPHANS, soon) == "Last searched for orphan files 6d ago (orphan_interval: 7d)."
        due = recommended(history=[past_run(ORPHANS, ago=8 * DAY), past_run(ORPHANS, ago=9 * DAY)])
        assert the(ORPHANS, due).reason == "Last searched for orphan files 8d ago."

    def test_a_search_is_priced_by_the_pages_to_list(self):
        table = status(partition(data_files=1500), manifests=ManifestStatus(count=400, bytes=400 * 8 * MIB))
        table = replace(table, snapshots=history(*[HOUR] * 200), snapshot_id=200)
        assert the(ORPHANS, recommended(table)).cost.get_requests == 400 + 3

    def test_a_clock_that_runs_ahead_does_not_give_a_negative_age(self):
        made = recommended(history=[past_run(ORPHANS, ago=-HOUR)])
        assert why_not(ORPHANS, made) == "Last searched for orphan files 0.0s ago (orphan_interval: 7d)."


class TestStatistics:
    def test_a_snapshot_without_statistics_gets_them(self):
        assert the(STATS, recommended(policy=ALL_ACTIONS)).reason == "The current snapshot has no statistics."

    def test_a_snapshot_with_statistics_is_left_unless_another_will_replace_it(self):
        has_them = {"metadata": MetadataStatus(statistics_snapshot_ids=(1,))}
        made = recommended(status(**has_them), policy=ALL_ACTIONS)
        assert why_not(STATS, made) == "The current snapshot already has statistics."
        assert STATS in kinds(recommended(status(small_files(), **has_them), policy=ALL_ACTIONS))


class TestRepeatedRuns:
    """An action that ran recently is not recommended again, unless the table was written to since."""

    def after(self, *entries, head, run=None, **facts):
        line = snapshots([entry(1, None, 2 * HOUR), *entries], [main(head)])
        table = status(small_files(), snapshots=line, snapshot_id=head)
        return recommended(table, history=[run or past_run(COMPACT)], **facts)

    def test_what_just_ran_on_this_snapshot_is_skipped(self):
        made = self.after(head=1)
        assert why_not(COMPACT, made) == "Ran 5m ago, and nothing was written since (repeat_after: 1h)."

    def test_it_is_recommended_again_after_repeat_after(self):
        assert COMPACT in kinds(self.after(head=1, run=past_run(COMPACT, ago=HOUR)))
        patient = Policy(repeat_after=2 * HOUR)
        assert COMPACT not in kinds(self.after(head=1, run=past_run(COMPACT, ago=HOUR), policy=patient))

    def test_it_is_recommended_again_after_a_write(self):
        assert COMPACT in kinds(self.after(entry(2, 1, timedelta(minutes=1)), head=2))

    def test_the_later_actions_of_the_same_run_are_no_writes(self):
        ours = [
            entry(2, 1, timedelta(minutes=4), operation="replace", job_id="a"),
            entry(3, 2, timedelta(minutes=3), operation="delete", job_id="b"),
        ]
        assert COMPACT not in kinds(self.after(*ours, head=3))

    def test_maintenance_by_another_tool_is_no_write(self):
        assert COMPACT not in kinds(self.after(entry(2, 1, timedelta(minutes=4), operation="replace"), head=2))

    def test_a_write_among_our_own_commits_counts_as_a_write(self):
        mixed = [
            entry(2, 1, timedelta(minutes=4)),
            entry(3, 2, timedelta(minutes=3), operation="replace", job_id="a"),
        ]
        assert COMPACT in kinds(self.after(*mixed, head=3))

    def test_a_snapshot_that_has_left_the_history_counts_as_a_write(self):
        for gone in (99, None):
            assert COMPACT in kinds(self.after(head=1, run=past_run(COMPACT, snapshot_id_after=gone)))

    def test_what_found_nothing_on_this_snapshot_is_never_tried_again(self):
        run = past_run(COMPACT, ago=90 * DAY, changed_nothing=True)
        made = self.after(head=1, run=run)
        assert why_not(COMPACT, made) == "Already ran on this snapshot and found nothing to do."
        assert COMPACT in kinds(self.after(entry(2, 1, HOUR, job_id="a"), head=2, run=run))

    def test_expiry_depends_on_the_time_and_is_tried_again(self):
        table = status(snapshots=history(30 * DAY, DAY), snapshot_id=2)
        run = past_run(EXPIRE, ago=2 * HOUR, snapshot_id_after=2, changed_nothing=True)
        assert EXPIRE in kinds(recommended(table, history=[run]))
        just_now = past_run(EXPIRE, snapshot_id_after=2)
        assert EXPIRE not in kinds(recommended(table, history=[just_now]))

    def test_the_runs_of_one_action_say_nothing_about_another(self):
        assert COMPACT in kinds(recommended(status(small_files()), history=[past_run(MANIFESTS)]))

    def test_the_newest_run_counts(self):
        runs = [past_run(COMPACT, ago=9 * HOUR), past_run(COMPACT), past_run(COMPACT, ago=5 * HOUR)]
        assert COMPACT not in kinds(recommended(status(small_files()), history=runs))

    def test_a_compaction_that_is_not_repeated_does_not_count_for_later_actions(self):
        table = status(small_files(), manifests=ManifestStatus(count=10, bytes=MIB))
        assert MANIFESTS not in kinds(recommended(table, history=[past_run(COMPACT)]))


@pytest.mark.parametrize(("rate", "seconds", "chance"), [(0, 100, 0), (3600, 0, 0), (3600, 1, 0.632), (1e9, 100, 1)])
def test_conflicts_come_at_random(rate, seconds, chance):
    assert estimate_conflict_probability(rate, seconds) == pytest.approx(chance, abs=0.001)


rows = st.builds(
    lambda number, count, size, touched, delete_files, hours: partition(
        f"p={number}",
        data_files=count + 3,
        bytes=count * size + 3 * 500 * MIB,
        small_files=count,
        small_bytes=count * size,
        position_delete_files=delete_files,
        files_with_deletes=min(touched, count),
        bytes_with_deletes=min(touched, count) * size,
        ends_at=None if hours is None else NOW + hours * HOUR,
    ),
    st.integers(0, 10**6),
    st.integers(0, 200),
    st.integers(1, 32 * MIB - 1),
    st.integers(0, 200),
    st.integers(0, 50),
    st.none() | st.integers(-50, 5),
)
partitions = st.lists(rows, min_size=1, max_size=5, unique_by=lambda row: row.key)
policies = st.builds(
    Policy,
    actions=st.sampled_from([DEFAULT_ACTIONS, tuple(ActionKind)]),
    strategy=st.none() | st.sampled_from(Strategy),
    min_input_files=st.integers(1, 20),
    fragment_ratio_threshold=st.floats(0, 1),
    max_cost=st.none() | st.floats(0, 0.01),
    scans_per_day=st.floats(0, 1000),
)


@given(partitions, policies, st.integers(0, 300))
def test_any_table_under_any_policy_gets_one_decision_per_action_in_order(found, policy, manifests):
    made = recommended(status(*found, manifests=ManifestStatus(count=manifests, bytes=MIB)), policy=policy)
    assert kinds(made) == [kind for kind in ActionKind if kind in kinds(made)]
    assert len(made.actions) + len(made.skipped) == len(ActionKind)
    for action in made.actions:
        assert action.kind in policy.actions
        assert 0 <= action.conflict_probability <= 1
        assert action.cost.dollars <= (policy.max_cost if policy.max_cost is not None else float("inf"))
        assert action.effect.files_removed >= 0


@given(partitions, policies)
def test_the_order_of_the_partitions_does_not_matter(found, policy):
    forwards, backwards = (recommended(status(*order), policy=policy) for order in (found, found[::-1]))
    assert forwards == backwards


@given(partitions, policies)
def test_a_recommendation_that_is_cheaper_to_run_is_never_skipped_for_its_price(found, policy):
    generous = replace(policy, max_cost=None)
    dear, cheap = CostModel(), CostModel(compute_dollars_per_gb_second=0, put_dollars_per_1000=0)
    if COMPACT in kinds(recommended(status(*found), policy=generous, model=dear)):
        assert COMPACT in kinds(recommended(status(*found), policy=generous, model=cheap))
