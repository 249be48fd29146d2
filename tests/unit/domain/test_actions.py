from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from icepack.domain.actions import (
    ACTION_ORDER,
    ActionKind,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    Layout,
    PartitionSelection,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
    Strategy,
    action_from_json,
    action_to_json,
    commits_snapshot,
    deletes_files,
)
from icepack.domain.plan.files import PartitionKey, PartitionValue

ACTIONS = (Compact, RewritePositionDeletes, RewriteManifests, ExpireSnapshots, RemoveOrphanFiles, ComputeStats)

text = st.text(max_size=10)
count = st.integers(0, 2**62)
options = st.dictionaries(text, text, max_size=3)
spans = st.timedeltas(timedelta(), timedelta(days=36500))
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), text
)
selections = st.builds(
    PartitionSelection,
    st.builds(PartitionKey, st.integers(0, 9), text),
    st.lists(st.builds(PartitionValue, text, text, values), max_size=3).map(tuple),
)

actions = st.one_of(
    st.builds(
        Compact,
        kind=st.just(ActionKind.COMPACT),
        strategy=st.sampled_from(Strategy),
        layout=st.sampled_from(Layout),
        columns=st.lists(text, max_size=3).map(tuple),
        target_file_bytes=st.none() | count,
        partition_filter=st.none() | text,
        partitions=st.lists(selections, max_size=3).map(tuple),
        max_cost_dollars=st.none() | st.floats(0, 1e6),
        options=options,
    ),
    st.builds(
        RewritePositionDeletes,
        kind=st.just(ActionKind.REWRITE_POSITION_DELETES),
        remove_dangling=st.booleans(),
        options=options,
    ),
    st.builds(RewriteManifests, kind=st.just(ActionKind.REWRITE_MANIFESTS), spec_id=st.none() | count),
    st.builds(
        ExpireSnapshots,
        kind=st.just(ActionKind.EXPIRE_SNAPSHOTS),
        older_than=spans,
        retain_last=count,
        snapshot_ids=st.lists(count, max_size=3).map(tuple),
        options=options,
    ),
    st.builds(
        RemoveOrphanFiles,
        kind=st.just(ActionKind.REMOVE_ORPHAN_FILES),
        older_than=spans,
        max_share=st.floats(0, 1),
        equal_schemes=options,
        options=options,
    ),
    st.builds(ComputeStats, kind=st.just(ActionKind.COMPUTE_STATS), columns=st.lists(text, max_size=3).map(tuple)),
)


@given(actions)
def test_every_action_survives_json_with_its_own_type(action):
    back = action_from_json(json.loads(json.dumps(action_to_json(action))))
    assert back == action
    assert type(back) is type(action)
    assert back.kind is action.kind


def test_a_partition_value_keeps_its_type():
    mixed = tuple(PartitionValue("p", "identity", value) for value in (True, 1, 1.0, "1", None))
    action = Compact(partitions=(PartitionSelection(PartitionKey(0, "p=1"), mixed),))
    back = action_from_json(action_to_json(action))
    assert [type(value.value) for value in back.partitions[0].values] == [bool, int, float, str, type(None)]


@pytest.mark.parametrize("kind", ActionKind)
def test_the_kind_alone_is_enough_to_name_an_action(kind):
    assert action_from_json({"kind": kind.value}).kind is kind


@pytest.mark.parametrize("value", [{}, {"kind": "vacuum"}, {"kind": "compact", "min_input_files": "many"}, 5])
def test_what_is_no_action_is_refused(value):
    with pytest.raises(ValidationError):
        action_from_json(value)


def test_there_is_one_class_per_kind_and_every_one_takes_options():
    assert {action().kind for action in ACTIONS} == set(ActionKind)
    assert all("options" in {field.name for field in fields(action)} for action in ACTIONS)


def test_files_are_deleted_only_after_everything_that_rewrites():
    deleting = [place for place, kind in enumerate(ACTION_ORDER) if deletes_files(kind)]
    committing = [place for place, kind in enumerate(ACTION_ORDER) if commits_snapshot(kind)]
    assert max(committing) < min(deleting)
    assert [ACTION_ORDER[place] for place in deleting] == [
        ActionKind.EXPIRE_SNAPSHOTS,
        ActionKind.REMOVE_ORPHAN_FILES,
    ]


@pytest.mark.parametrize("spelling", ["time_series", "time-series", "TIME-SERIES", "Time_Series"])
def test_a_strategy_may_be_spelled_with_dashes_and_capitals(spelling):
    assert Strategy(spelling) is Strategy.TIME_SERIES
    assert action_from_json({"kind": "compact", "strategy": spelling}).strategy is Strategy.TIME_SERIES


@pytest.mark.parametrize("spelling", ["zorder", "z-order", "Z_ORDER", "z-Order"])
def test_a_layout_may_be_spelled_with_dashes_and_capitals(spelling):
    assert Layout(spelling) is Layout.ZORDER


@pytest.mark.parametrize("kind", [Strategy, Layout])
def test_an_unknown_spelling_is_refused(kind):
    with pytest.raises(ValueError, match="random"):
        kind("random")
