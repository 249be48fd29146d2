"""Policies, prices and catalogs are built from the configuration."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest

from icepack.config import (
    CompactionConfig,
    build_base_policy,
    build_catalog_properties,
    build_cost_model,
    build_policy_rules,
)
from icepack.config.domain_settings import UNREACHABLE_FRAGMENT_RATIO
from icepack.config.policy_block import PolicyBlock
from icepack.config.sections import CostSettings
from icepack.domain.actions import ActionKind, Layout, Strategy
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import POLICY_KEYS, Policy, resolve_policy
from icepack.domain.table import TableId
from icepack.domain.units import GIB, MIB


def test_an_empty_configuration_gives_the_domains_defaults():
    config = CompactionConfig()
    assert build_base_policy(config) == Policy()
    assert build_cost_model(config) == CostModel()
    assert build_policy_rules(config) == ()
    assert build_catalog_properties(config) == {}


def test_every_policy_key_and_every_price_can_be_configured():
    assert tuple(PolicyBlock.model_fields) == POLICY_KEYS
    assert tuple(CostSettings.model_fields) == tuple(field.name for field in fields(CostModel))


def test_policy_overrides_compaction_and_the_strategys_target_overrides_the_general_one(load):
    text = "compaction: {target_file_size: 1GB}"
    assert build_base_policy(load(text).config).target_file_size == GIB
    text = "compaction: {target_file_size: 1GB, strategies: {small_files: {target_size: 256MB}}}"
    assert build_base_policy(load(text).config).target_file_size == 256 * MIB
    assert build_base_policy(load(text + "\npolicy: {target_file_size: 8MB}").config).target_file_size == 8 * MIB


def test_every_kind_of_policy_value_is_read(load):
    text = """
policy:
  enabled: no
  actions: [expire_snapshots, compact]
  strategy: time-series
  layout: z-order
  columns: a, b
  snapshot_retention: 12h
  max_cost: none
  partition_filter: auto
  min_input_files: 3
  max_orphan_share: 0.25
"""
    policy = build_base_policy(load(text).config)
    assert not policy.enabled
    assert policy.actions == (ActionKind.COMPACT, ActionKind.EXPIRE_SNAPSHOTS)
    assert (policy.strategy, policy.layout, policy.columns) == (Strategy.TIME_SERIES, Layout.ZORDER, ("a", "b"))
    assert policy.snapshot_retention == timedelta(hours=12)
    assert (policy.max_cost, policy.partition_filter) == (None, None)
    assert (policy.min_input_files, policy.max_orphan_share) == (3, 0.25)


@pytest.mark.parametrize(
    ("small", "deletes", "series", "strategy", "compacts"),
    [
        (True, True, None, None, True),
        (True, False, None, None, True),
        (True, True, False, Strategy.SMALL_FILES, True),
        (True, False, False, Strategy.SMALL_FILES, True),
        (False, True, None, Strategy.DELETE_FILES, True),
        (False, True, False, Strategy.DELETE_FILES, True),
        (False, True, True, Strategy.TIME_SERIES, True),
        (False, False, True, Strategy.TIME_SERIES, True),
        (False, False, None, Strategy.DELETE_FILES, False),
    ],
)
def test_a_disabled_strategy_changes_the_policy(small, deletes, series, strategy, compacts):
    strategies = {
        "small_files": {"enabled": small},
        "delete_files": {"enabled": deletes},
        "time_series": {"enabled": series},
    }
    policy = build_base_policy(CompactionConfig(compaction={"strategies": strategies}))
    assert policy.strategy is strategy
    assert (ActionKind.COMPACT in policy.actions) is compacts
    assert policy.fragment_ratio_threshold == (0.1 if deletes else UNREACHABLE_FRAGMENT_RATIO)


def test_time_series_grace_and_delete_threshold_reach_the_policy(load):
    text = """
compaction:
  strategies:
    delete_files: {fragment_ratio_threshold: 0.3}
    time_series: {open_partition_grace: 2h}
"""
    policy = build_base_policy(load(text).config)
    assert policy.fragment_ratio_threshold == 0.3
    assert policy.open_partition_grace == timedelta(hours=2)


def test_policies_and_tables_become_rules_with_only_the_given_settings(load):
    text = """
policies:
  - match: sales.*
    max_cost: 5
    actions: expire_snapshots
tables:
  - name: sales.orders
    strategy: small-files
    options: {strategy: delete_files, min_input_files: 2}
  - name: plain
"""
    rules = build_policy_rules(load(text).config)
    assert [(rule.pattern.text, rule.values) for rule in rules] == [
        ("sales.*", {"max_cost": 5.0, "actions": (ActionKind.EXPIRE_SNAPSHOTS,)}),
        ("sales.orders", {"strategy": Strategy.SMALL_FILES, "min_input_files": 2}),
        ("plain", {}),
    ]


def test_parallelism_of_the_cost_model_is_the_configured_one(load):
    assert build_cost_model(load("compaction: {max_parallelism: 8}").config).parallelism == 8
    both = "compaction: {max_parallelism: 8}\ncost: {parallelism: 3, rewrite_bytes_per_core_second: 16MB}"
    model = build_cost_model(load(both).config)
    assert (model.parallelism, model.rewrite_bytes_per_core_second) == (3, 16 * MIB)


def test_storage_adds_to_catalogs_without_overriding_them(load):
    text = """
catalogs:
  a: {uri: http://a}
  b: {uri: http://b, warehouse: s3://own/x, s3.region: us-east-1}
storage:
  bucket: lake
  region: eu-west-1
  endpoint: http://minio:9000
  access_key_id: id
  secret_access_key: key
  path_style_access: true
"""
    catalogs = build_catalog_properties(load(text).config)
    assert catalogs["a"] == {
        "uri": "http://a",
        "warehouse": "s3://lake",
        "s3.region": "eu-west-1",
        "s3.endpoint": "http://minio:9000",
        "s3.access-key-id": "id",
        "s3.secret-access-key": "key",
        "s3.path-style-access": "true",
    }
    assert (catalogs["b"]["warehouse"], catalogs["b"]["s3.region"]) == ("s3://own/x", "us-east-1")


def test_storage_on_google_cloud_uses_its_names(load):
    text = "catalog: {uri: http://a}\nstorage: {type: gcs, bucket: lake, endpoint: http://g}"
    assert build_catalog_properties(load(text).config)["default"] == {
        "uri": "http://a",
        "warehouse": "gs://lake",
        "gcs.service.host": "http://g",
    }


def test_a_tables_own_entry_overrides_the_glob_of_its_namespace(load):
    text = "policies: [{match: prod.sales.*, max_cost: 1}]\ntables: [{name: orders, options: {max_cost: 2}}]"
    config = load(text).config
    orders = TableId("prod", ("sales",), "orders")
    assert resolve_policy(build_base_policy(config), build_policy_rules(config), orders, {}).max_cost == 2
