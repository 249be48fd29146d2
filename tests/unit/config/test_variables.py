"""`${NAME}` in the file, and `ICEPACK_*` environment variables."""

from __future__ import annotations

from icepack.config.settings import CompactionConfig
from icepack.domain.actions import ActionKind

SETTINGS = tuple(CompactionConfig.model_fields)


def test_a_default_replaces_a_variable_that_is_unset_or_empty(load):
    text = "server: {host: '${HOST:-fallback}'}"
    assert load(text).config.server.host == "fallback"
    assert load(text, {"HOST": ""}).config.server.host == "fallback"
    assert load(text, {"HOST": "h"}).config.server.host == "h"
    assert load("storage: {region: '${R:-}'}").config.storage.region == ""


def test_variables_are_filled_in_within_text_and_typed_afterwards(load):
    text = "server: {port: '${PORT}'}\nstate: {url: 'postgresql://u:${P}@${H:-db}/x'}"
    config = load(text, {"PORT": "9090", "P": "pw"}).config
    assert config.server.port == 9090
    assert config.state.url == "postgresql://u:pw@db/x"


def test_a_value_with_special_characters_stays_one_value(load):
    config = load("catalog: {token: '${T}'}", {"T": 'a: "b" # [c]\n- ${T}'}).config
    assert config.catalog["token"] == 'a: "b" # [c]\n- ${T}'


def test_a_doubled_dollar_is_text(load):
    assert load("catalog: {uri: 'a$${B}c$d'}").config.catalog["uri"] == "a${B}c$d"


def test_comments_may_name_variables_that_are_not_set(load):
    assert load("# ${NOT_SET}\nserver: {port: 1}").config.server.port == 1


def test_an_unset_variable_names_its_line_key_and_remedy(load_error):
    assert load_error("server:\n  host: a\nstorage:\n  bucket: s3-${S3_BUCKET}\n") == (
        "icepack.yaml, line 4: storage.bucket uses ${S3_BUCKET}, which is not set; "
        "set it, or write a default as ${S3_BUCKET:-default}."
    )


def test_a_broken_reference_says_how_to_write_one(load_error):
    for text in ("catalog:\n  uri: ${", "catalog:\n  uri: ${1A}", "catalog:\n  uri: ${A-b}"):
        assert load_error(text, {"A": "1"}).startswith(
            "icepack.yaml, line 2: catalog.uri has a ${ without a variable name"
        )


def test_icepack_variables_reach_nested_settings(load):
    config = load(
        environ={
            "ICEPACK_SPARK__MASTER": "yarn",
            "icepack_server__port": "1234",
            "ICEPACK_COMPACTION__STRATEGIES__SMALL_FILES__THRESHOLD": "8MB",
            "ICEPACK_POLICY__ACTIONS": "expire_snapshots, compact",
            "ICEPACK_POLICY__COLUMNS": '["a", "b"]',
            "ICEPACK_TABLES": '[{"name": "events", "options": {"max_cost": 2}}]',
        }
    ).config
    assert (config.spark.master, config.server.port) == ("yarn", 1234)
    assert config.compaction.strategies.small_files.threshold == 8 * 1024**2
    assert set(config.policy.actions) == {ActionKind.COMPACT, ActionKind.EXPIRE_SNAPSHOTS}
    assert config.policy.columns == ("a", "b")
    assert config.tables[0].options.max_cost == 2


def test_catalog_properties_are_spelled_as_pyiceberg_spells_them(load):
    config = load(
        environ={
            "ICEPACK_CATALOG__S3__ACCESS_KEY_ID": "k",
            "ICEPACK_CATALOG__TOKEN": "123",
            "ICEPACK_CATALOGS__PROD": '{"uri": "http://p", "s3.path-style-access": true, "n": 1}',
            "ICEPACK_CATALOGS__PROD__OAUTH2_SERVER_URI": "http://o",
        }
    ).config
    assert config.catalog == {"s3.access-key-id": "k", "token": "123"}
    assert config.catalogs["prod"] == {
        "uri": "http://p",
        "s3.path-style-access": "true",
        "n": "1",
        "oauth2-server-uri": "http://o",
    }


def test_a_variable_matches_a_catalog_name_with_capitals_and_hyphens(load):
    config = load("catalogs: {My-Lake: {uri: a}}", {"ICEPACK_CATALOGS__MY_LAKE__TOKEN": "t"}).config
    assert config.catalogs == {"My-Lake": {"uri": "a", "token": "t"}}


def test_an_empty_variable_is_ignored(load):
    assert load(environ={"ICEPACK_SPARK__MASTER": ""}).config.spark.master == "local[*]"


def test_variables_that_kubernetes_sets_for_a_service_named_icepack_are_ignored(load):
    environ = {"ICEPACK_PORT": "tcp://10.0.0.1:80", "ICEPACK_SERVICE_HOST": "10.0.0.1", "ICEPACK_SERVER_PORT": "x"}
    assert load(environ=environ).config.server.port == 8080


def test_an_invalid_variable_is_named(load_error):
    file = "server: {port: 1}\nspark: {master: x}"
    cases = {
        ("ICEPACK_SERVER__PORT", "abc"): "server.port should be a whole number, not 'abc'.",
        ("ICEPACK_SPARC__MASTER", "x"): "unknown setting sparc; did you mean spark?",
        ("ICEPACK_QQQ__MASTER", "x"): f"unknown setting qqq; expected one of {', '.join(SETTINGS)}.",
        ("ICEPACK_SPARK__MASTRE", "x"): "unknown setting spark.mastre; did you mean spark.master?",
        ("ICEPACK_SPARK", "x"): "spark should be a block of settings in JSON, not 'x'.",
        ("ICEPACK_SPARK__CONF", "x"): "spark.conf should be a block of settings in JSON, not 'x'.",
        ("ICEPACK_TABLES", "x"): "tables should be a list in JSON, not 'x'.",
        ("ICEPACK_TABLES__0__NAME", "x"): "tables should be a list in JSON, not a block.",
        ("ICEPACK_TABLES", '[{"name": "a", "schedule": "x"}]'): (
            "tables[0].schedule should be a cron expression such as 0 */6 * * *, not 'x'."
        ),
        ("ICEPACK_POLICY__MAX_COST", "much"): "policy.max_cost should be a number, not 'much'.",
        ("ICEPACK_CATALOGS__PROD", "5"): "catalogs.prod should be a block of settings in JSON, not '5'.",
    }
    for (name, value), sentence in cases.items():
        assert load_error(file, {name: value}) == f"{name}: {sentence}"


def test_an_error_in_the_file_does_not_name_an_unrelated_variable(load_error):
    sentence = load_error("server:\n  port: abc", {"ICEPACK_SERVER__HOST": "h"})
    assert sentence == "icepack.yaml, line 2: server.port should be a whole number, not 'abc'."


def test_an_error_in_a_flag_names_the_command_line(load_error):
    sentence = load_error("server:\n  port: 1", {"ICEPACK_SERVER__PORT": "2"}, {"server": {"port": "x"}})
    assert sentence == "On the command line: server.port should be a whole number, not 'x'."


def test_sparks_own_settings_keep_their_capitals(load):
    config = load(
        environ={
            "ICEPACK_SPARK__CONF__spark__sql__adaptive__coalescePartitions__enabled": "false",
            "icepack_spark__conf__spark__eventLog__dir": "/logs/A",
            "ICEPACK_SPARK__CONF__SPARK__UI__ENABLED": "false",
            "ICEPACK_SPARK__CONF__spark.dotted.camelCase": "1",
        }
    ).config
    assert config.spark.conf == {
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.eventLog.dir": "/logs/A",
        "spark.ui.enabled": "false",
        "spark.dotted.camelCase": "1",
    }
