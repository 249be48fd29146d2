"""Manually requested actions: given values win, the policy supplies the rest."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from domain.factories import DAY, NOW, partition, recommended, small_files, status
from icepack.config.domain_settings import _COMPACTION_PARAMETERS
from icepack.domain.action_parameters import complete_action
from icepack.domain.actions import (
    ActionKind,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    Layout,
    RemoveOrphanFiles,
    RewriteEngine,
    RewritePositionDeletes,
    Strategy,
)
from icepack.domain.policy import Policy
from icepack.domain.units import MIB
from icepack.domain.verification import ProofLevel

# Settings that a policy and a compaction share by name, with values that differ from the defaults.
SHARED: dict[str, Any] = {
    "layout": Layout.SORT,
    "columns": ("a",),
    "engine": RewriteEngine.SPARK,
    "proof": ProofLevel.FULL,
    "partial_progress": True,
}
# Shared settings that also depend on the table.
DERIVED = {"strategy", "min_input_files", "partition_filter"}

POLICY = Policy(
    snapshot_retention=timedelta(days=3),
    min_snapshots_to_keep=4,
    orphan_retention=timedelta(days=9),
    max_orphan_files=7,
    max_orphan_share=0.2,
    min_input_files=3,
    partition_filter="region = 'eu'",
    max_cost=1.5,
)


def test_expiry_takes_its_retention_from_the_policy() -> None:
    action = complete_action(ActionKind.EXPIRE_SNAPSHOTS, {}, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert action == ExpireSnapshots(older_than=timedelta(days=3), retain_last=4)


def test_what_is_given_beats_the_policy() -> None:
    given = {"older_than": timedelta(hours=1)}
    action = complete_action(ActionKind.EXPIRE_SNAPSHOTS, given, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert action == ExpireSnapshots(older_than=timedelta(hours=1), retain_last=4)


def test_the_orphan_search_takes_age_and_caps_from_the_policy() -> None:
    action = complete_action(ActionKind.REMOVE_ORPHAN_FILES, {}, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert action == RemoveOrphanFiles(older_than=timedelta(days=9), max_files=7, max_share=0.2)


def test_position_deletes_honour_the_partition_filter() -> None:
    action = complete_action(ActionKind.REWRITE_POSITION_DELETES, {}, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert action == RewritePositionDeletes(partition_filter="region = 'eu'")


def test_an_action_without_policy_settings_is_as_it_was_given() -> None:
    given = {"columns": ("a",)}
    action = complete_action(ActionKind.COMPUTE_STATS, given, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert action == ComputeStats(columns=("a",))


def test_compaction_takes_thresholds_filter_and_cost_from_the_policy() -> None:
    action = complete_action(ActionKind.COMPACT, {}, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert isinstance(action, Compact)
    assert (action.min_input_files, action.partition_filter, action.max_cost_dollars) == (3, "region = 'eu'", 1.5)
    assert action.delete_file_threshold is None


def test_a_file_is_never_small_above_three_quarters_of_the_given_target() -> None:
    given = {"target_file_bytes": 4 * MIB}
    action = complete_action(ActionKind.COMPACT, given, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert isinstance(action, Compact)
    assert action.small_file_bytes == 3 * MIB


def test_the_delete_files_strategy_asks_for_one_delete_file() -> None:
    given = {"strategy": Strategy.DELETE_FILES}
    action = complete_action(ActionKind.COMPACT, given, status(), POLICY, Strategy.SMALL_FILES, NOW)
    assert isinstance(action, Compact)
    assert action.delete_file_threshold == 1


def test_time_series_skips_open_partitions() -> None:
    closed, open_ = partition(path="d=1", ends_at=NOW - DAY), partition(path="d=2", ends_at=NOW + DAY)
    table = status(closed, open_)
    action = complete_action(ActionKind.COMPACT, {}, table, POLICY, Strategy.TIME_SERIES, NOW)
    assert isinstance(action, Compact)
    assert [selection.key for selection in action.partitions] == [closed.key]


def test_time_series_with_only_closed_partitions_names_none() -> None:
    table = status(partition(path="d=1", ends_at=NOW - DAY))
    action = complete_action(ActionKind.COMPACT, {}, table, POLICY, Strategy.TIME_SERIES, NOW)
    assert isinstance(action, Compact)
    assert action.partitions == ()


def test_every_setting_that_a_compaction_shares_with_the_policy_is_accounted_for() -> None:
    names = {field.name for field in fields(Policy)} & {field.name for field in fields(Compact)}
    assert names == {*SHARED, *DERIVED}


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_setting_reaches_every_compaction(name: str) -> None:
    policy = replace(Policy(), **{name: SHARED[name]})
    manual = complete_action(ActionKind.COMPACT, {}, status(), policy, Strategy.SMALL_FILES, NOW)
    found = recommended(status(small_files()), policy=policy)
    advised = next(item.action for item in found.actions if item.kind is ActionKind.COMPACT)
    assert getattr(manual, name) == getattr(advised, name) == SHARED[name]
    assert _COMPACTION_PARAMETERS[name] == name, "a schedule's own entry"
