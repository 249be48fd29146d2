"""The YAML examples of the compaction service's specification load unchanged."""

from __future__ import annotations

from icepack.config import build_base_policy, build_catalog_properties, build_cost_model, build_policy_rules
from icepack.domain.actions import Strategy
from icepack.domain.policy import resolve_policy
from icepack.domain.table import TableId
from icepack.domain.units import GIB, MIB

DEPLOYMENT = """
# config.yaml
server:
  host: 0.0.0.0
  port: 8080

catalog:
  type: rest
  uri: http://catalog:8181

compaction:
  target_file_size: 1GB
  max_parallelism: 4

scheduler:
  enabled: true
  default_schedule: "0 */6 * * *"  # Every 6 hours
"""

BASIC = """
# config.yaml
catalog:
  type: rest
  uri: ${CATALOG_URI}

storage:
  type: s3
  bucket: ${S3_BUCKET}
  region: ${AWS_REGION}

compaction:
  strategies:
    small_files:
      enabled: true
      threshold: 32MB
      target_size: 1GB

    delete_files:
      enabled: true
      fragment_ratio_threshold: 0.1
"""

TABLES = """
tables:
  - name: events
    schedule: "*/30 * * * *"  # Every 30 minutes
    strategy: time_series
    options:
      target_file_size: 512MB
      partition_filter: "date >= current_date - 7"

  - name: dimensions
    schedule: "0 2 * * *"     # Daily at 2 AM
    strategy: small_files
    options:
      target_file_size: 1GB
"""


def test_the_deployment_example_loads(load):
    config = load(DEPLOYMENT).config
    assert (config.server.host, config.server.port) == ("0.0.0.0", 8080)
    assert build_catalog_properties(config) == {"default": {"type": "rest", "uri": "http://catalog:8181"}}
    assert build_base_policy(config).target_file_size == GIB
    assert build_cost_model(config).parallelism == 4
    assert config.scheduler.enabled
    assert config.scheduler.default_schedule == "0 */6 * * *"


def test_the_basic_example_loads_with_its_variables(load):
    variables = {"CATALOG_URI": "http://c:8181", "S3_BUCKET": "lake", "AWS_REGION": "eu-west-1"}
    config = load(BASIC, variables).config
    assert build_catalog_properties(config)["default"] == {
        "type": "rest",
        "uri": "http://c:8181",
        "warehouse": "s3://lake",
        "s3.region": "eu-west-1",
    }
    policy = build_base_policy(config)
    assert policy.target_file_size == GIB
    assert policy.small_file_threshold == 32 * MIB
    assert policy.fragment_ratio_threshold == 0.1
    assert policy.strategy is None


def test_the_table_example_loads_and_becomes_rules(load):
    config = load(TABLES).config
    assert [table.schedule for table in config.tables] == ["*/30 * * * *", "0 2 * * *"]
    events = resolve_policy(
        build_base_policy(config), build_policy_rules(config), TableId("prod", ("analytics",), "events"), {}
    )
    assert events.strategy is Strategy.TIME_SERIES
    assert events.target_file_size == 512 * MIB
    assert events.partition_filter == "date >= current_date - 7"
    dimensions = resolve_policy(
        build_base_policy(config), build_policy_rules(config), TableId("prod", ("analytics",), "dimensions"), {}
    )
    assert (dimensions.strategy, dimensions.target_file_size) == (Strategy.SMALL_FILES, GIB)


def test_all_examples_hold_in_one_file(load):
    text = DEPLOYMENT + BASIC[BASIC.index("storage:") : BASIC.index("compaction:")] + TABLES
    config = load(text, {"S3_BUCKET": "b", "AWS_REGION": "r"}).config
    assert len(config.tables) == 2
    assert build_catalog_properties(config)["default"]["warehouse"] == "s3://b"


def test_options_of_the_api_example_are_accepted(load):
    text = (
        "tables:\n- name: events\n  options: {target_file_size: 1GB, max_cost: 10.0, "
        "partition_filter: \"date = '2024-01-01'\"}"
    )
    [rule] = build_policy_rules(load(text).config)
    assert rule.values == {"target_file_size": GIB, "max_cost": 10.0, "partition_filter": "date = '2024-01-01'"}


def test_catalogs_by_name_keep_pyiceberg_property_names_as_text(load):
    text = """
catalogs:
  lake:
    type: sql
    uri: sqlite:////data/lake/catalog.db
    warehouse: file:///data/lake/warehouse
    echo: true
    pool: 0123
    since: 2024-01-01
catalog:
  uri: http://c
"""
    catalogs = build_catalog_properties(load(text).config)
    assert list(catalogs) == ["lake", "default"]
    assert catalogs["lake"]["uri"] == "sqlite:////data/lake/catalog.db"
    assert (catalogs["lake"]["echo"], catalogs["lake"]["pool"]) == ("true", "0123")
    assert catalogs["lake"]["since"] == "2024-01-01"


def test_catalog_is_the_catalog_named_default(load):
    text = "catalog: {uri: http://a}\ncatalogs:\n  default: {uri: http://b, scope: all}"
    assert build_catalog_properties(load(text).config) == {"default": {"uri": "http://a", "scope": "all"}}


def test_empty_blocks_are_the_same_as_none(load):
    config = load("compaction:\nspark:\n  conf:\npolicy:\ncatalogs:\n  prod:\n").config
    assert config.compaction.target_file_size == 512 * MIB
    assert config.spark.conf == {}
    assert config.catalogs == {"prod": {}}


def test_anchors_and_merge_keys_work(load):
    text = """
catalogs:
  one: &shared
    type: rest
    uri: http://one
    token: a
  two:
    <<: *shared
    uri: http://two
  three:
    <<: [{token: c}, *shared]
"""
    catalogs = load(text).config.catalogs
    assert catalogs["two"] == {"type": "rest", "uri": "http://two", "token": "a"}
    assert catalogs["three"] == {"type": "rest", "uri": "http://one", "token": "c"}
