"""`icepack config` shows effective settings and never a secret."""

from __future__ import annotations

import json

import pytest

from icepack.config import mask_config
from icepack.config.secrets import is_secret, mask_passwords, mask_secrets
from icepack.config.types import duration_text, size_text
from icepack.domain.units import parse_duration, parse_size

SECRET_TEXT = """
catalogs:
  prod:
    uri: postgresql+psycopg://admin:hunter2@db:5432/catalog
    token: hunter2
    credential: id:hunter2
    s3.access-key-id: hunter2
    s3.secret-access-key: hunter2
    adls.account-key: hunter2
    header.Authorization: Bearer hunter2
    scope: ${MY_TOKEN}
    note: before-${DB_PASSWORD}-after
catalog:
  uri: http://c
  password: hunter2
storage: {secret_access_key: hunter2}
state: {url: "postgresql://u:${DB_PASSWORD}@h/d"}
spark:
  conf:
    spark.hadoop.fs.s3a.secret.key: hunter2
    spark.hadoop.fs.s3a.access.key: hunter2
    spark.jdbc: jdbc:postgresql://h/d?user=u&password=hunter2&ssl=true
tables:
  - name: a
    options: {columns: ["${API_KEY}"]}
"""


@pytest.fixture
def config_with_secrets(load):
    return load(SECRET_TEXT, {"MY_TOKEN": "hunter2", "DB_PASSWORD": "hunter2", "API_KEY": "abc"}).config


def test_no_secret_is_shown(config_with_secrets):
    shown = mask_config(config_with_secrets)
    text = json.dumps(shown)
    assert "hunter2" not in text
    assert "abc" not in text
    prod = shown["catalogs"]["prod"]
    assert prod["uri"] == "postgresql+psycopg://admin:***@db:5432/catalog"
    assert prod["scope"] == "***"
    assert prod["note"] == "before-***-after"
    assert shown["state"]["url"] == "postgresql://u:***@h/d"
    assert shown["spark"]["conf"]["spark.jdbc"] == "jdbc:postgresql://h/d?user=u&password=***&ssl=true"


def test_repr_and_str_reveal_no_secret(config_with_secrets):
    config = config_with_secrets
    assert "hunter2" not in f"{config!r} {config} {config.storage!r} {config.state}"


def test_effective_settings_are_shown_in_full_and_as_users_write_them(load):
    shown = mask_config(
        load("compaction: {target_file_size: 1GB}\npolicies: [{match: 'a.*', repeat_after: 90m}]").config
    )
    assert shown["compaction"]["target_file_size"] == "1GB"
    assert shown["policy"]["target_file_size"] == "1GB"
    assert shown["policy"]["snapshot_retention"] == "7d"
    assert shown["policies"] == [{"match": "a.*", "repeat_after": "90m"}]
    assert shown["retry"] == {"max_attempts": 5, "base_delay": "1s"}
    assert list(shown["catalogs"]) == ["lake"]
    assert "catalog" not in shown


def test_unset_secrets_are_shown_as_unset(load):
    assert mask_config(load().config)["storage"]["secret_access_key"] is None


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "s3.access-key-id",
        "fs.s3a.access.key",
        "adls.sas-token",
        "DB_PASS",
        "DB_PW",
        "client_secret",
        "API_KEY",
        "jdbc.password",
        "gcs.oauth2.token",
        "adls.connection-string",
        "AWS_ACCESS_KEY_ID",
        "Credential",
        "PGPASSWORD",
    ],
)
def test_names_that_mark_a_secret(key):
    assert is_secret(key)


@pytest.mark.parametrize(
    "key", ["uri", "warehouse", "s3.region", "PWD", "type", "partition_filter", "bypass", "keys", "HOME"]
)
def test_names_that_do_not_mark_a_secret(key):
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://user:p@ss/w:rd@host/db", "postgresql://user:***@host/db"),
        ("redis://:pw@host", "redis://:***@host"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
        ("http://host:8181/path", "http://host:8181/path"),
        ("https://h/x?sslpassword=a;b=c", "https://h/x?sslpassword=***;b=c"),
    ],
)
def test_passwords_in_urls_are_masked(text, shown):
    assert mask_passwords(text) == shown


def test_a_very_short_secret_is_masked_only_where_it_is_the_whole_text():
    assert mask_secrets("a", {"a"}) == "***"
    assert mask_secrets("banana", {"a"}) == "banana"
    assert mask_secrets("long-secret, longer-secret", {"long-secret", "longer-secret"}) == "***, ***"


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 32 * 1024**2, 1024**4, 33554433])
def test_a_shown_size_reads_back(size):
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize("text", ["0s", "250ms", "45s", "90m", "12h", "7d"])
def test_a_shown_duration_reads_back(text):
    assert duration_text(parse_duration(text)) == text
