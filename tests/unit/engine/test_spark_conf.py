from __future__ import annotations

import re
from pathlib import Path

import pytest

from icepack.engine.spark_conf import (
    HIGH_COMPILE_THRESHOLDS,
    SECRET_KEYS,
    jar_purposes,
    launch_conf,
    session_conf,
    spark_catalog_conf,
    spark_catalog_name,
)
from icepack.errors import ConfigError

SQLITE = {"type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "file:///data/warehouse"}
REST = {"type": "rest", "uri": "https://catalog.example/api"}
S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"


def settings(properties: dict[str, str], name: str = "lake") -> dict[str, str]:
    prefix = f"spark.sql.catalog.{name}."
    conf = spark_catalog_conf(name, properties)
    return {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}


def session(**changes: object) -> dict[str, str]:
    arguments: dict[str, object] = {"catalogs": {"lake": SQLITE}, "jars": [], "user_conf": {}, "master": "local[*]"}
    return session_conf(**{**arguments, **changes})  # type: ignore[arg-type]


def test_a_sqlite_catalog_becomes_a_jdbc_catalog() -> None:
    assert spark_catalog_conf("lake", {**SQLITE, "echo": "true", "py-io-impl": "a.B"}) == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": "jdbc:sqlite:/data/catalog.db",
        "spark.sql.catalog.lake.warehouse": "file:///data/warehouse",
        "spark.sql.catalog.lake.jdbc.busy_timeout": "30000",
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


def test_a_relative_sqlite_file_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert settings({"uri": "sqlite:///catalog.db"})["uri"] == f"jdbc:sqlite:{tmp_path}/catalog.db"


def test_a_catalog_that_has_no_warehouse_still_opens() -> None:
    assert settings({"uri": "sqlite:////c.db"})["warehouse"].startswith("file:///")


def test_a_postgres_url_is_converted_to_jdbc() -> None:
    uri = "postgresql+psycopg2://ice%20user:p%40ss@db.example:5433/my%20db?sslmode=require&connect_timeout=5"
    found = settings({"type": "sql", "uri": uri, "warehouse": "file:///w"})
    assert found["uri"] == "jdbc:postgresql://db.example:5433/my%20db"
    assert (found["jdbc.user"], found["jdbc.password"]) == ("ice user", "p@ss")
    assert (found["jdbc.sslmode"], found["jdbc.connectTimeout"]) == ("require", "5")


@pytest.mark.parametrize(
    ("uri", "address"), [("postgresql:///ice", "localhost:5432"), ("postgresql://[::1]:5433/ice", "[::1]:5433")]
)
def test_a_postgres_address_has_defaults(uri: str, address: str) -> None:
    assert settings({"uri": uri})["uri"] == f"jdbc:postgresql://{address}/ice"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("mysql://host/db", "in a mysql database"),
        ("no url", "not a valid database URL"),
        ("postgresql:///db?host=/run/postgresql", "Unix socket"),
    ],
)
def test_a_database_that_spark_cannot_open_is_rejected(uri: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spark_catalog_conf("lake", {"type": "sql", "uri": uri})


def test_the_schema_version_is_set_only_if_configured() -> None:
    assert "jdbc.schema-version" not in settings(SQLITE)
    assert settings({**SQLITE, "schema_version": "v1"})["jdbc.schema-version"] == "V1"


def test_a_rest_catalog_keeps_its_properties() -> None:
    properties = {"uri": "https://c.example", "credential": "a:b", "scope": "s", "prefix": "p", "header.X-Own": "1"}
    found = settings({**properties, "warehouse": "prod"})
    assert found == {
        **properties,
        "warehouse": "prod",
        "type": "rest",
        "cache-enabled": "false",
        "header.X-Iceberg-Access-Delegation": "vended-credentials",
    }


def test_the_delegation_header_of_a_rest_catalog_is_not_changed() -> None:
    found = settings({**REST, "header.x-iceberg-access-delegation": "remote-signing"})
    assert [value for key, value in found.items() if "delegation" in key.lower()] == ["remote-signing"]


def test_a_rest_catalog_with_signed_requests() -> None:
    found = settings({**REST, "rest.sigv4-enabled": "true", "rest.signing-name": "glue"})
    assert (found["rest.auth.type"], found["rest.signing-name"]) == ("sigv4", "glue")
    assert "rest.sigv4-enabled" not in found


def test_glue_and_hive_catalogs() -> None:
    glue = settings({"type": "glue", "glue.region": "eu-west-1", "glue.id": "1", "warehouse": "s3://b/w"})
    assert (glue["type"], glue["client.region"], glue["glue.id"]) == ("glue", "eu-west-1", "1")
    hive = settings({"uri": "thrift://hms.example:9083", "warehouse": "hdfs://n/w"})
    assert (hive["type"], hive["uri"]) == ("hive", "thrift://hms.example:9083")
    assert "io-impl" not in hive


def test_s3_properties_are_converted_to_those_of_iceberg_java() -> None:
    found = settings(
        {
            **SQLITE,
            "warehouse": "s3a://bucket/warehouse",
            "s3.endpoint": "http://127.0.0.1:9000",
            "s3.access-key-id": "key",
            "client.access-key-id": "less specific",
            "client.secret-access-key": "secret",
            "s3.session-token": "token",
            "s3.proxy-uri": "http://proxy.example",
            "s3.connect-timeout": "2.5",
            "s3.request-timeout": "60",
            "s3.server-side-encryption": "aws:kms",
            "s3.sse-kms-key-id": "arn",
            "s3.signer": "S3V4RestSigner",
            "s3.signer.uri": "https://signer.example",
        }
    )
    assert found | {"type": "", "uri": "", "warehouse": "", "jdbc.busy_timeout": ""} == {
        "type": "",
        "uri": "",
        "warehouse": "",
        "jdbc.busy_timeout": "",
        "cache-enabled": "false",
        "io-impl": S3_FILE_IO,
        "client.region": "us-east-1",
        "http-client.apache.connection-timeout-ms": "2500",
        "http-client.apache.socket-timeout-ms": "60000",
        "http-client.proxy-endpoint": "http://proxy.example",
        "s3.access-key-id": "key",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.path-style-access": "true",
        "s3.remote-signing-enabled": "true",
        "s3.secret-access-key": "secret",
        "s3.session-token": "token",
        "s3.sse.key": "arn",
        "s3.sse.type": "kms",
        "signer.uri": "https://signer.example",
    }


@pytest.mark.parametrize(
    ("properties", "path_style"),
    [
        ({"s3.region": "eu-west-1"}, None),
        ({"s3.endpoint": "http://minio.example"}, "true"),
        ({"s3.endpoint": "http://minio.example", "s3.path-style-access": "false"}, "false"),
        ({"s3.endpoint": "http://minio.example", "s3.force-virtual-addressing": "True"}, "false"),
        ({"s3.force-virtual-addressing": "false"}, "true"),
    ],
)
def test_buckets_are_addressed_as_pyarrow_does(properties: dict[str, str], path_style: str | None) -> None:
    assert settings({**REST, **properties}).get("s3.path-style-access") == path_style


@pytest.mark.parametrize(
    ("properties", "region"),
    [
        ({"s3.endpoint": "https://s3.eu-west-1.amazonaws.com"}, None),
        ({"s3.endpoint": "http://minio.example", "s3.region": "here"}, "here"),
        ({"client.region": "general", "s3.region": "specific"}, "specific"),
    ],
)
def test_the_region_is_the_most_specific_one(properties: dict[str, str], region: str | None) -> None:
    assert settings({**REST, **properties}).get("client.region") == region


def test_a_role_and_anonymous_access() -> None:
    found = settings({**REST, "s3.role-arn": "arn", "client.role-session-name": "me", "s3.region": "here"})
    assert found["client.factory"].endswith("AssumeRoleAwsClientFactory")
    assert [found[f"client.assume-role.{key}"] for key in ("arn", "session-name", "region")] == ["arn", "me", "here"]
    assert settings({**REST, "s3.anonymous": "true"})["client.credentials-provider"].endswith(
        "AnonymousCredentialsProvider"
    )


def test_s3_file_io_is_set_only_if_tables_are_on_s3() -> None:
    assert settings({"uri": "sqlite:////c.db", "s3.region": "here"})["io-impl"] == S3_FILE_IO
    assert "io-impl" not in settings({**SQLITE, "s3.region": "here"})
    assert settings({**SQLITE, "warehouse": "s3://b", "io-impl": "own.IO"})["io-impl"] == "own.IO"


@pytest.mark.parametrize(("properties", "message"), [({"type": "dynamodb"}, "'dynamodb'"), ({}, "without a type")])
def test_the_error_for_an_unknown_type_lists_the_supported_types(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        spark_catalog_conf("lake", properties)
    assert error.value.remedy == "Set its type to sql, rest, glue or hive."


@pytest.mark.parametrize("name", ["lake", "my lake", "my-lake", "a`b", "ünï", "select"])
def test_names_that_spark_allows_are_kept(name: str) -> None:
    assert spark_catalog_name(name, SQLITE) == name


@pytest.mark.parametrize("name", ["prod.eu", "a+b", "a(b", "a|b", "a$", "a\\d", "global_temp"])
def test_a_name_that_spark_does_not_allow_is_replaced_or_rejected(name: str) -> None:
    alias = spark_catalog_name(name, REST)
    assert re.fullmatch(r"\w+_[0-9a-f]{8}", alias)
    assert spark_catalog_conf(name, REST)[f"spark.sql.catalog.{alias}.type"] == "rest"
    with pytest.raises(ConfigError, match=re.escape(name)):
        spark_catalog_name(name, SQLITE)


def test_replaced_names_are_unique() -> None:
    assert spark_catalog_name("a.b", REST) != spark_catalog_name("a+b", REST)


@pytest.mark.parametrize(
    ("properties", "purposes"),
    [
        (SQLITE, {"base"}),
        ({**SQLITE, "warehouse": "s3://bucket"}, {"base", "aws"}),
        ({"uri": "postgresql+psycopg://h/d", "warehouse": "file:///w"}, {"base", "postgres"}),
        ({"type": "glue"}, {"base", "aws"}),
        ({**REST, "warehouse": "prod"}, {"base", "aws"}),
        ({**REST, "warehouse": "file:///w"}, {"base"}),
        ({"uri": "thrift://h:9083"}, {"base"}),
    ],
)
def test_only_the_needed_jars_are_requested(properties: dict[str, str], purposes: set[str]) -> None:
    assert jar_purposes({"lake": properties}) == purposes


def test_a_local_session_listens_on_the_loopback_interface_and_leaves_no_files_behind() -> None:
    conf = session(jars=[Path("/j/a.jar"), Path("/j/b.jar")], driver_memory="2g")
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.driver.extraClassPath"] == "/j/a.jar:/j/b.jar"
    assert conf["spark.driver.memory"] == "2g"
    assert conf["spark.sql.catalogImplementation"] == "in-memory"
    assert not conf["spark.sql.warehouse.dir"].startswith(Path.cwd().as_uri())
    assert conf["spark.sql.catalog.lake.type"] == "jdbc"
    assert "spark.jars" not in conf


def test_a_cluster_gets_the_jars_and_keeps_its_own_addresses() -> None:
    conf = session(master="yarn", jars=[Path("/j/a.jar"), Path("/j/b.jar")])
    assert conf["spark.jars"] == "/j/a.jar,/j/b.jar"
    assert not {"spark.driver.host", "spark.driver.extraClassPath", "spark.sql.shuffle.partitions"} & conf.keys()


def test_only_a_local_jvm_gets_compile_thresholds() -> None:
    assert all(option in session()["spark.driver.extraJavaOptions"] for option in HIGH_COMPILE_THRESHOLDS)
    assert "spark.driver.extraJavaOptions" not in session(master="yarn")


def test_user_settings_take_precedence_and_lists_are_joined() -> None:
    conf = session(
        jars=[Path("/j/a.jar")],
        java_options=["-Dstore=/my cache/x", '-Dq="'],
        user_conf={
            "spark.ui.enabled": "true",
            "spark.sql.extensions": "own.Extension",
            "spark.driver.extraJavaOptions": "-Down=1",
            "spark.jars": "/own.jar",
            "spark.sql.catalog.lake.cache-enabled": "true",
        },
    )
    assert conf["spark.ui.enabled"] == conf["spark.sql.catalog.lake.cache-enabled"] == "true"
    assert conf["spark.sql.extensions"].endswith("IcebergSparkSessionExtensions,own.Extension")
    assert conf["spark.driver.extraJavaOptions"].endswith(r' "-Dstore=/my cache/x" "-Dq=\"" -Down=1')
    assert conf["spark.jars"] == "/own.jar"


EXAMPLES_OF_SECRET_KEYS = [
    "spark.sql.catalog.lake.jdbc.password",
    "spark.sql.catalog.lake.s3.secret-access-key",
    "spark.sql.catalog.lake.s3.access-key-id",
    "spark.sql.catalog.lake.credential",
    "spark.sql.catalog.lake.token",
    "spark.sql.catalog.lake.header.Authorization",
    "spark.sql.catalog.lake.adls.connection-string.account",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.azure.account.key.x",
]


@pytest.mark.parametrize("key", EXAMPLES_OF_SECRET_KEYS)
def test_secrets_are_redacted_and_kept_off_the_command_line(key: str) -> None:
    conf = session(user_conf={key: "hidden"})
    assert conf[key] == "hidden"
    assert re.search(conf["spark.redaction.regex"], key)
    assert "hidden" not in launch_conf(conf).values()


def test_the_command_line_has_the_settings_that_the_jvm_needs_at_start() -> None:
    launched = launch_conf(session(jars=[Path("/j/a.jar")], driver_memory="2g", java_options=["-Da=b"]))
    assert {"spark.driver.memory", "spark.driver.extraClassPath", "spark.driver.extraJavaOptions"} <= launched.keys()
    assert launched["spark.redaction.regex"] == SECRET_KEYS
    assert not any(key.startswith("spark.sql.catalog.") for key in launched)
