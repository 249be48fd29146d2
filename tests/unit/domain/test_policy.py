from __future__ import annotations

from datetime import timedelta
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import TABLE
from icepack.domain.actions import ActionKind, Layout, Strategy
from icepack.domain.policy import (
    DEFAULT_ACTIONS,
    POLICY_KEYS,
    Policy,
    PolicyRule,
    read_policy_values,
    resolve_policy,
)
from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId, TablePattern
from icepack.domain.units import FOREVER, GIB, MIB
from icepack.errors import ConfigError


def rule(pattern, **values):
    return PolicyRule(TablePattern.parse(pattern), read_policy_values(values, "here"))


def resolve(*rules, properties=None, table=TABLE):
    return resolve_policy(Policy(), rules, table, properties or {})


LAYERS = ["*", "lake.*", "sales.*", "lake.sales.*", "ord*", "lake.sales.ord*", "orders", "lake.sales.orders"]


@pytest.mark.parametrize(("weaker", "stronger"), list(pairwise(LAYERS)))
def test_the_more_specific_rule_wins_in_any_order(weaker, stronger):
    rules = [rule(weaker, min_input_files=11), rule(stronger, min_input_files=22)]
    assert {resolve(*order).min_input_files for order in permutations(rules)} == {22}


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("a_catalog_with_a_long_name.*", "sales.*"),
        ("a_catalog_with_a_long_name.sales.*", "orders"),
        ("a_catalog_with_a_long_name.sales.*", "*.*.orders"),
        ("a_catalog_with_a_long_name.sales.ord*", "orders"),
    ],
)
def test_the_layer_decides_and_not_the_length_of_the_pattern(weaker, stronger):
    table = TableId("a_catalog_with_a_long_name", ("sales",), "orders")
    rules = [rule(stronger, min_input_files=22), rule(weaker, min_input_files=11)]
    assert resolve(*rules, table=table).min_input_files == 22


def test_a_deeper_namespace_beats_the_one_around_it():
    table = TableId("lake", ("web", "archive"), "events")
    rules = [rule("lake.web.archive.*", min_input_files=22), rule("lake.web.*", min_input_files=11)]
    assert resolve(*rules, table=table).min_input_files == 22


def test_a_quoted_star_is_a_table_and_not_a_namespace_rule():
    table = TableId("lake", ("sales",), "*")
    rules = [rule('lake.sales."*"', min_input_files=22), rule("lake.sales.?", min_input_files=11)]
    assert resolve(*rules, table=table).min_input_files == 22


def test_among_equal_rules_the_later_one_wins():
    assert resolve(rule("orders", min_input_files=3), rule("orders", min_input_files=4)).min_input_files == 4


def test_layers_are_merged_setting_by_setting():
    policy = resolve(
        rule("lake.*", min_input_files=9, max_cost=1),
        rule("sales.*", max_cost=2),
        properties={"icepack.enabled": "false"},
    )
    assert (policy.min_input_files, policy.max_cost, policy.enabled) == (9, 2.0, False)
    assert policy.snapshot_retention == timedelta(days=7)


def test_a_rule_for_other_tables_changes_nothing():
    assert resolve(rule("lake.web.*", enabled=False), rule("order", enabled=False)) == Policy()


def test_the_tables_own_icepack_properties_beat_every_rule():
    policy = resolve(rule("lake.sales.orders", max_cost=1), properties={"icepack.max-cost": "5"})
    assert policy.max_cost == 5.0


def test_icebergs_own_properties_beat_every_rule_and_lose_to_icepacks():
    own = {
        "write.target-file-size-bytes": str(128 * MIB),
        "history.expire.max-snapshot-age-ms": "86400000",
        "history.expire.min-snapshots-to-keep": "7",
        "unrelated": "x",
    }
    closest = rule("lake.sales.orders", target_file_size="1GB", snapshot_retention="3d", min_snapshots_to_keep=2)
    policy = resolve(closest, properties=own)
    assert policy.target_file_size == 128 * MIB
    assert policy.snapshot_retention == timedelta(days=1)
    assert policy.min_snapshots_to_keep == 7
    policy = resolve(closest, properties=own | {"icepack.snapshot-retention": "2d"})
    assert policy.snapshot_retention == timedelta(days=2)


def test_snapshots_that_iceberg_keeps_for_ever_are_kept_for_ever():
    policy = resolve(properties={"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    assert policy.snapshot_retention == FOREVER


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.target-file-size-bytes", "512MB"),
        ("write.target-file-size-bytes", "0"),
        ("history.expire.max-snapshot-age-ms", "soon"),
        ("history.expire.max-snapshot-age-ms", "-1"),
        ("history.expire.min-snapshots-to-keep", "0"),
        ("icepack.min-input-files", "few"),
        ("icepack.colour", "blue"),
    ],
)
def test_the_error_of_an_invalid_table_property_names_the_table(key, value):
    with pytest.raises(ConfigError) as refused:
        resolve(properties={key: value})
    assert "lake.sales.orders" in str(refused.value)
    assert key.removeprefix("icepack.") in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("enabled", "no", False),
        ("enabled", True, True),
        ("enabled", "ON", True),
        ("actions", "compact, expire_snapshots", (ActionKind.COMPACT, ActionKind.EXPIRE_SNAPSHOTS)),
        ("actions", ["expire-snapshots", "compact"], (ActionKind.COMPACT, ActionKind.EXPIRE_SNAPSHOTS)),
        ("actions", "", ()),
        ("strategy", "time-series", Strategy.TIME_SERIES),
        ("strategy", "auto", None),
        ("strategy", None, None),
        ("layout", "z-order", Layout.ZORDER),
        ("columns", "a, b", ("a", "b")),
        ("columns", ["a", "b"], ("a", "b")),
        ("target_file_size", "1GB", GIB),
        ("target-file-size", 1024, 1024),
        ("small.file.threshold", "16MB", 16 * MIB),
        ("max_files_per_partition", "10", 10),
        ("fragment_ratio_threshold", "0.25", 0.25),
        ("partial_progress", 1, True),
        ("partition_filter", "d > 5", "d > 5"),
        ("partition_filter", "", None),
        ("open_partition_grace", "30m", timedelta(minutes=30)),
        ("orphan_interval", timedelta(days=1), timedelta(days=1)),
        ("max_orphan_share", "0.5", 0.5),
        ("max_orphan_share", 0, 0.0),
        ("max_orphan_share", 1, 1.0),
        ("max_orphan_files", 0, 0),
        ("max_cost", "none", None),
        ("max_cost", 2, 2.0),
        ("scans_per_day", 0, 0.0),
    ],
)
def test_every_setting_is_read_in_its_own_type(key, value, expected):
    (found,) = read_policy_values({key: value}, "here").values()
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("enabled", "maybe", "'maybe' is not true or false"),
        ("actions", "vacuum", "'vacuum' is not one of compact, rewrite_position_deletes"),
        ("actions", 5, "not iterable"),
        ("strategy", "magic", "'magic' is not one of small_files, delete_files, time_series"),
        ("layout", "spiral", "'spiral' is not one of binpack, sort, zorder, hilbert"),
        ("target_file_size", "0", "'0' is less than the minimum of 1"),
        ("target_file_size", "huge", "a size such as 32MB"),
        ("small_file_threshold", "9" * 400 + "GB", "too large for a size"),
        ("min_input_files", 0, "'0' is less than the minimum of 1"),
        ("min_input_files", 5.9, "'5.9' is not a whole number"),
        ("min_snapshots_to_keep", True, "'True' is not a whole number"),
        ("fragment_ratio_threshold", "nan", "'nan' is not a number"),
        ("fragment_ratio_threshold", -1, "'-1' is less than the minimum of 0"),
        ("scans_per_day", float("inf"), "'inf' is not a number"),
        ("snapshot_retention", "7", "is not a duration; use a form such as 7d"),
        ("snapshot_retention", "999999999d", "longer than a thousand years"),
        ("max_orphan_share", 1.5, "'1.5' is not between 0 and 1"),
        ("max_orphan_share", "half", "'half' is not a number"),
        ("max_cost", "cheap", "'cheap' is not a number"),
    ],
)
def test_an_invalid_value_error_names_its_source_its_key_and_what_is_expected(key, value, error):
    with pytest.raises(ConfigError) as refused:
        read_policy_values({key: value}, "icepack.yaml, policy")
    message = str(refused.value)
    assert message.startswith(f"icepack.yaml, policy: '{key}': ")
    assert error in message


def test_the_error_of_an_unknown_setting_lists_all_settings():
    with pytest.raises(ConfigError) as refused:
        read_policy_values({"retention": "7d"}, "here")
    assert all(key in str(refused.value) for key in POLICY_KEYS)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.text(max_size=3), max_size=2)
)


@given(st.sampled_from(POLICY_KEYS), anything)
def test_any_value_for_any_setting_is_read_or_a_config_error(key, value):
    try:
        values = read_policy_values({key: value}, "here")
    except ConfigError:
        return
    assert resolve_policy(Policy(), [PolicyRule(TablePattern.parse("*"), values)], TABLE, {})


def test_every_field_of_the_policy_can_be_set():
    defaults = to_json(Policy())
    read = read_policy_values({key: getattr(Policy(), key) for key in defaults if key != "actions"}, "here")
    assert read.keys() | {"actions"} == set(POLICY_KEYS)


def test_a_policy_survives_json():
    policy = resolve(rule("*", strategy="time-series", columns="a,b", max_cost=1.5, open_partition_grace="90m"))
    assert from_json(Policy, to_json(policy)) == policy


def test_statistics_are_the_one_action_that_is_off_unless_asked_for():
    assert set(ActionKind) - set(DEFAULT_ACTIONS) == {ActionKind.COMPUTE_STATS}
