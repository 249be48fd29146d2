"""Every invalid setting is reported in one sentence with the file, the line, the key and the expected value."""

from __future__ import annotations

import pytest

from icepack.errors import ConfigError

KINDS = (
    "'compact', 'rewrite_position_deletes', 'rewrite_manifests', 'expire_snapshots', "
    "'remove_orphan_files' or 'compute_stats'"
)

CASES = [
    ("\ncompactoin:\n  x: 1", 2, "unknown setting compactoin; did you mean compaction?"),
    ("spark:\n  master: a\n  mastre: b", 3, "unknown setting spark.mastre; did you mean spark.master?"),
    (
        "orchestrator:\n  zzz: 1",
        2,
        "unknown setting orchestrator.zzz; expected one of interval, concurrency, shadow, retry_after, "
        "dollars_per_point.",
    ),
    (
        "tables:\n- name: a\n  options:\n    max_cots: 1",
        4,
        "unknown setting tables[0].options.max_cots; did you mean tables[0].options.max_cost?",
    ),
    (
        "policies:\n- match: a\n- match: b\n  max-cost: 1",
        4,
        "unknown setting policies[1].max-cost; did you mean policies[1].max_cost?",
    ),
    (
        "compaction:\n  strategies:\n    small_flies: {}",
        3,
        "unknown setting compaction.strategies.small_flies; did you mean compaction.strategies.small_files?",
    ),
    ("tables:\n- nmae: a", 2, "unknown setting tables[0].nmae; did you mean tables[0].name?"),
    (
        "compaction:\n  target_file_size: huge",
        2,
        "compaction.target_file_size should be a size such as 32MB or 1GB, not 'huge'.",
    ),
    ("compaction:\n  target_file_size: 0", 2, "compaction.target_file_size should be more than 0, not '0'."),
    (f"policy:\n  target_file_size: {'9' * 400}", 2, "policy.target_file_size should be a size such as 32MB or 1GB."),
    (
        "policy:\n  target_file_size: [1]",
        2,
        "policy.target_file_size should be a size such as 32MB or 1GB, not a list.",
    ),
    (
        "policy:\n  enabled: true\n  snapshot_retention: 7",
        3,
        "policy.snapshot_retention should be a duration such as 7d, 12h, 30m or 45s, not '7'.",
    ),
    ("retry:\n  base_delay:", 2, "retry.base_delay should be a duration such as 7d, 12h, 30m or 45s, but is empty."),
    (
        "scheduler:\n  default_schedule: every day",
        2,
        "scheduler.default_schedule should be a cron expression such as 0 */6 * * *, not 'every day'.",
    ),
    (
        "tables:\n  - name: a\n    schedule: 61 * * * *",
        3,
        "tables[0].schedule should be a cron expression such as 0 */6 * * *, not '61 * * * *'.",
    ),
    ("tables:\n  - schedule: 1 * * * *", 2, "tables[0].name is missing."),
    (
        "tables:\n  - name: a..b",
        2,
        "tables[0].name should be a table name or glob such as catalog.namespace.table or sales.*, not 'a..b'.",
    ),
    (
        "policies:\n  - match: 'a..b'",
        2,
        "policies[0].match should be a table name or glob such as catalog.namespace.table or sales.*, not 'a..b'.",
    ),
    ("tables: 5", 1, "tables should be a list, not '5'."),
    ("tables:\n- 5", 2, "tables[0] should be a block of settings, not '5'."),
    ("server: 5", 1, "server should be a block of settings, not '5'."),
    ("server:\n- 5", 1, "server should be a block of settings, not a list."),
    ("server:\n  port: abc", 2, "server.port should be a whole number, not 'abc'."),
    ("server:\n  port: 70000", 2, "server.port should be at most 65535, not '70000'."),
    ("server:\n  port: 0", 2, "server.port should be at least 1, not '0'."),
    ("server:\n  port:", 2, "server.port should be a whole number, but is empty."),
    ("server:\n  host: {a: b}", 2, "server.host should be text, not a block."),
    ("cost:\n  memory_gb: nan", 2, "cost.memory_gb should be a number, not 'nan'."),
    ("scheduler:\n  enabled: perhaps", 2, "scheduler.enabled should be true or false, not 'perhaps'."),
    ("storage:\n  type: floppy", 2, "storage.type should be one of 's3' or 'gcs', not 'floppy'."),
    ("catalogs:\n  a: b", 2, "catalogs.a should be a block of settings, not 'b'."),
    ("catalogs:\n  a:\n    b: [c]", 3, "catalogs.a.b should be text, not a list."),
    ("catalogs: [a]", 1, "catalogs should be a block of settings, not a list."),
    ("policy:\n  actions: compact, foo", 2, f"policy.actions[1] should be one of {KINDS}, not 'foo'."),
    (
        "policy:\n  layout: spiral",
        2,
        "policy.layout should be one of 'binpack', 'sort', 'zorder' or 'hilbert', not 'spiral'.",
    ),
    (
        "policy:\n  strategy: fast",
        2,
        "policy.strategy should be one of 'small_files', 'delete_files' or 'time_series', not 'fast'.",
    ),
    (
        "policy:\n  partition_filter: date >=",
        2,
        'policy.partition_filter is invalid: in the filter "date >=", expected a value at character 8 '
        "but found nothing.",
    ),
    (
        "compaction:\n  strategies:\n    delete_files: {enabled: no}\ntables:\n- name: a\n  strategy: delete-files",
        6,
        "tables[0].strategy is delete_files, but compaction.strategies.delete_files.enabled is false; "
        "enable it there or choose another strategy.",
    ),
    (
        "compaction:\n  strategies:\n    time_series: {enabled: no}\npolicies:\n- match: a\n  strategy: time_series",
        6,
        "policies[0].strategy is time_series, but compaction.strategies.time_series.enabled is false; "
        "enable it there or choose another strategy.",
    ),
    ("server:\n  port: 1\n  host: a\n  port: 2", 4, "server.port is already set on line 2; remove one of the two."),
    ("x: !abc", 1, "x has a YAML tag; quote a value that starts with !."),
    ("x: &a {b: *a}", 1, "x.b contains itself; write the block out."),
    ("catalog:\n  <<: text", 1, "catalog should refer to blocks after <<, as in <<: *block."),
    ("{[a]: b}", 1, "the file has a key that is not plain text."),
    ("- a", 1, "the file should contain settings such as catalogs: and policy:."),
    ("just text", 1, "the file should contain settings such as catalogs: and policy:."),
]


@pytest.mark.parametrize(("text", "line", "sentence"), CASES, ids=[case[2][:50] for case in CASES])
def test_an_invalid_setting_is_one_sentence(load_error, text, line, sentence):
    assert load_error(text) == f"icepack.yaml, line {line}: {sentence}"


@pytest.mark.parametrize("key", ["min_input_files", "max_files_per_partition", "min_snapshots_to_keep"])
def test_the_policys_own_limits_hold(load_error, key):
    sentence = load_error(f"policies:\n- match: a\n  {key}: 0")
    assert sentence.startswith(f"icepack.yaml, line 3: policies[0].{key} is invalid: ")
    assert "less than the minimum of 1" in sentence


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("server: [", "line 1, column 10", "check the indentation"),
        ("server:\n\tport: 1", "line 2, column 1", "indent with spaces"),
        ("a: b: c", "line 1, column 5", "check the indentation"),
        ("server: {}\n---\nserver: {}", "line 2, column 1", "a second YAML document starts here"),
    ],
)
def test_a_syntax_error_names_its_position(load_error, text, place, words):
    sentence = load_error(text)
    assert sentence.startswith(f"icepack.yaml, {place}: ")
    assert words in sentence


def test_control_characters_and_other_encodings_are_rejected(load_error, cwd, load):
    assert load_error("a: \x01") == (
        "icepack.yaml has a character that YAML does not allow; save it as plain UTF-8 text."
    )
    (cwd / "icepack.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load()


def test_a_file_that_cannot_be_read_says_so(cwd, load, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    (cwd / "icepack.yaml").touch()
    with pytest.raises(ConfigError, match=r"icepack.yaml cannot be read \(Permission denied\); check"):
        load()


@pytest.mark.parametrize(
    "text",
    [
        "catalog:\n  token: *hunter2",
        "catalog:\n  token: !hunter2",
        "catalog:\n  token: 'hunter2",
        "catalog:\n  password: {a: hunter2}",
        "catalog:\n  s3.secret-access-key: [hunter2]",
        "storage:\n  secret_access_key: [hunter2]",
        "server:\n  port: postgresql://u:hunter2@h",
        "server:\n  port: ${DB_PASSWORD}",
        "server:\n  port: a-${DB_PASSWORD}-b",
        "server:\n  port: ${API_TOKEN:-hunter2}",
        "policy:\n  partition_filter: a ${DB_PASSWORD}",
        "catalog: hunter2: x",
        "state:\n  url: hunter2\n  url: b",
    ],
)
def test_no_error_reveals_a_secret(load_error, text):
    assert "hunter2" not in load_error(text, {"DB_PASSWORD": "hunter2"})


def test_the_error_keeps_no_cause_that_would_print_the_input(load):
    with pytest.raises(ConfigError) as caught:
        load("catalog: {token: [hunter2]}")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_unknown_keys_are_reported_before_other_problems(load_error):
    assert load_error("server: {port: x}\ntables:\n- nmae: a") == (
        "icepack.yaml, line 3: unknown setting tables[0].nmae; did you mean tables[0].name?"
    )
