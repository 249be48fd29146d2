"""Builds Spark's configuration from the properties of PyIceberg catalogs."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from icepack.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import URL

# Configuration keys whose values are secret.
SECRET_KEYS = (
    r"(?i)secret|password|passwd|token|credential|access[._-]?key|account[._-]?key|connection-string|authorization"
)
# Compile thresholds four times those of Java. The JVM only plans and commits, and it ends before the costly compiler
# has paid off. Measured on a rewrite of 50 files: 0.7 s of CPU time in the JVM instead of 1.3 s. Code that runs for
# long is still compiled.
HIGH_COMPILE_THRESHOLDS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=5000",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
# Fewer than Spark's default of 200, which suits clusters.
LOCAL_SHUFFLE_PARTITIONS = 8
SQLITE_BUSY_TIMEOUT_MS = 30_000

Properties = Mapping[str, str]

# Iceberg's catalog type for each PyIceberg type.
_CATALOG_TYPES = {"sql": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive"}
# The PyIceberg type that is inferred from the scheme of a uri if no type is set.
_TYPES_BY_SCHEME = {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
_S3_SCHEMES = ("s3", "s3a", "s3n")
_DELEGATION_HEADER = "header.X-Iceberg-Access-Delegation"
_SQL_URI_HINT = "Set its uri to a value such as sqlite:////data/catalog.db or postgresql+psycopg://user@host/catalog."
_ENCRYPTION_TYPES = {"AES256": "s3", "aws:kms": "kms", "aws:kms:dsse": "dsse-kms"}
# Properties that only PyIceberg uses.
_PYTHON_ONLY = {"type", "echo", "pool_pre_ping", "schema_version", "init_catalog_tables", "botocore_session"}
# Names of connection options in the JDBC driver.
_POSTGRES_OPTIONS = {"application_name": "ApplicationName", "connect_timeout": "connectTimeout"}

# Properties of Iceberg Java, each with the names of PyIceberg for it, the most specific first.
_PYICEBERG_NAMES = {
    "client.region": ("s3.region", "glue.region", "client.region"),
    "s3.access-key-id": ("s3.access-key-id", "client.access-key-id"),
    "s3.secret-access-key": ("s3.secret-access-key", "client.secret-access-key"),
    "s3.session-token": ("s3.session-token", "client.session-token"),
    "client.assume-role.arn": ("s3.role-arn", "client.role-arn"),
    "client.assume-role.session-name": ("s3.role-session-name", "client.role-session-name"),
    "http-client.proxy-endpoint": ("s3.proxy-uri",),
    "s3.sse.key": ("s3.sse-kms-key-id",),
    "signer.uri": ("s3.signer.uri",),
    "signer.endpoint": ("s3.signer.endpoint",),
}
_RENAMED = {name for names in _PYICEBERG_NAMES.values() for name in names}
# Properties whose values need a conversion.
_CONVERTED = {
    "s3.anonymous",
    "s3.connect-timeout",
    "s3.force-virtual-addressing",
    "s3.request-timeout",
    "s3.server-side-encryption",
    "s3.signer",
    "rest.sigv4-enabled",
}

# Settings in which the user's value is appended to the one set here, with the separator.
_LIST_SEPARATORS = {
    "spark.jars": ",",
    "spark.sql.extensions": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
}


def spark_catalog_name(name: str, properties: Properties) -> str:
    """Returns the name of the catalog in Spark, which is its own name if Spark allows it.

    Spark reads the name as a regular expression and does not allow dots. A different name works for all types except
    `sql`, where the name is part of every row in the catalog's database.
    """
    if name != "global_temp" and name == re.sub(r"[.^$*+?()\[\]{}|\\]", "", name):
        return name
    if _catalog_type(name, properties) == "sql":
        raise ConfigError(
            f"Spark does not allow the catalog name '{name}', and an sql catalog stores its name in its database.",
            "Use a name without . ^ $ * + ? ( ) [ ] { } | \\ for the catalog.",
        )
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def spark_catalog_conf(name: str, properties: Properties) -> dict[str, str]:
    """Returns the `spark.sql.catalog.…` settings of a catalog; unknown properties are passed on unchanged."""
    kind = _catalog_type(name, properties)
    settings = {**_unchanged_settings(properties), **_renamed_settings(properties), **_s3_settings(properties)}
    if kind == "sql":
        settings |= _jdbc_settings(name, properties)
    if kind == "rest":
        settings |= _rest_settings(properties)
    elif _is_on_s3(properties):
        settings.setdefault("io-impl", "org.apache.iceberg.aws.s3.S3FileIO")
    settings |= {"type": _CATALOG_TYPES[kind], "cache-enabled": "false"}
    prefix = f"spark.sql.catalog.{spark_catalog_name(name, properties)}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in settings.items()},
    }


def jar_purposes(catalogs: Mapping[str, Properties]) -> set[str]:
    """Returns the groups of jars that these catalogs need."""
    purposes = {"base"}
    for name, properties in catalogs.items():
        kind = _catalog_type(name, properties)
        if kind == "sql" and _database_url(name, properties).get_backend_name() == "postgresql":
            purposes.add("postgres")
        # Only the server of a REST catalog knows where its tables are stored.
        if kind == "glue" or _is_on_s3(properties) or (kind == "rest" and not _warehouse_scheme(properties)):
            purposes.add("aws")
    return purposes


def session_conf(
    *,
    catalogs: Mapping[str, Properties],
    jars: Sequence[Path],
    user_conf: Mapping[str, str],
    master: str,
    driver_memory: str | None = None,
    java_options: Sequence[str] = (),
) -> dict[str, str]:
    """Returns all settings of the session; the user's take precedence, and are appended in settings that are lists."""
    is_local = master.startswith("local")
    options = [*(HIGH_COMPILE_THRESHOLDS if is_local else ()), *java_options]
    conf = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": SECRET_KEYS,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": _scratch_folder().as_uri(),
        "spark.driver.extraJavaOptions": " ".join(map(_quote_option, options)),
    }
    conf |= _local_settings(jars) if is_local else {"spark.jars": ",".join(map(str, jars))}
    if driver_memory:
        conf["spark.driver.memory"] = driver_memory
    for name, properties in catalogs.items():
        conf |= spark_catalog_conf(name, properties)
    return _merge({key: value for key, value in conf.items() if value}, user_conf)


def launch_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings without secrets: every user of the machine can read the command line of the JVM."""
    return {
        key: value
        for key, value in conf.items()
        if not key.startswith("spark.sql.catalog.") and not re.search(SECRET_KEYS, key)
    }


def _local_settings(jars: Sequence[Path]) -> dict[str, str]:
    """A local master listens only on the loopback interface, and uses the jars in place instead of copying them."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.sql.shuffle.partitions": str(LOCAL_SHUFFLE_PARTITIONS),
    }


def _merge(conf: Mapping[str, str], user_conf: Mapping[str, str]) -> dict[str, str]:
    combined = {
        key: _LIST_SEPARATORS[key].join([conf[key], user_conf[key]])
        for key in _LIST_SEPARATORS
        if key in conf and key in user_conf
    }
    return {**conf, **user_conf, **combined}


def _scratch_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"icepack-spark-{os.getuid()}"


def _quote_option(option: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'


def _catalog_type(name: str, properties: Properties) -> str:
    scheme = re.split(r"[:+]", properties.get("uri", ""))[0]
    kind = properties.get("type", _TYPES_BY_SCHEME.get(scheme, "")).lower()
    if kind not in _CATALOG_TYPES:
        what = f"of type '{kind}'" if kind else "without a type"
        raise ConfigError(f"Spark cannot open the catalog '{name}' {what}.", "Set its type to sql, rest, glue or hive.")
    return kind


def _unchanged_settings(properties: Properties) -> dict[str, str]:
    excluded = _PYTHON_ONLY | _RENAMED | _CONVERTED
    return {key: value for key, value in properties.items() if key not in excluded and not key.startswith("py-")}


def _renamed_settings(properties: Properties) -> dict[str, str]:
    found = {
        java_name: next((properties[name] for name in names if name in properties), None)
        for java_name, names in _PYICEBERG_NAMES.items()
    }
    return {java_name: value for java_name, value in found.items() if value is not None}


def _s3_settings(properties: Properties) -> dict[str, str]:
    settings = _s3_endpoint_settings(properties)
    if _is_true(properties.get("s3.anonymous")):
        settings["client.credentials-provider"] = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
    if properties.get("s3.signer") == "S3V4RestSigner":
        settings["s3.remote-signing-enabled"] = "true"
    if encryption := properties.get("s3.server-side-encryption"):
        settings["s3.sse.type"] = _ENCRYPTION_TYPES.get(encryption, encryption)
    for name, java_name in (("s3.connect-timeout", "connection"), ("s3.request-timeout", "socket")):
        if name in properties:
            settings[f"http-client.apache.{java_name}-timeout-ms"] = str(int(float(properties[name]) * 1000))
    if "s3.role-arn" in properties or "client.role-arn" in properties:
        settings["client.factory"] = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
        settings["client.assume-role.region"] = _renamed_settings(properties).get("client.region", "us-east-1")
    return settings


def _s3_endpoint_settings(properties: Properties) -> dict[str, str]:
    """Follows PyArrow: an S3-compatible server is accessed with path-style requests, and its region does not matter."""
    endpoint = urlsplit(properties.get("s3.endpoint", "")).hostname
    settings = {}
    if "s3.force-virtual-addressing" in properties:
        settings["s3.path-style-access"] = "false" if _is_true(properties["s3.force-virtual-addressing"]) else "true"
    elif endpoint and "s3.path-style-access" not in properties:
        settings["s3.path-style-access"] = "true"
    if endpoint and not endpoint.endswith(".amazonaws.com") and "client.region" not in _renamed_settings(properties):
        settings["client.region"] = "us-east-1"
    return settings


def _is_true(value: str | None) -> bool:
    return str(value).lower() in ("true", "1", "yes", "on")


def _warehouse_scheme(properties: Properties) -> str:
    return urlsplit(properties.get("warehouse", "")).scheme


def _is_on_s3(properties: Properties) -> bool:
    scheme = _warehouse_scheme(properties)
    return scheme in _S3_SCHEMES or (not scheme and any(key.startswith("s3.") for key in properties))


def _rest_settings(properties: Properties) -> dict[str, str]:
    settings = {}
    if not any(key.lower() == _DELEGATION_HEADER.lower() for key in properties):
        settings[_DELEGATION_HEADER] = "vended-credentials"
    if _is_true(properties.get("rest.sigv4-enabled")):
        settings["rest.auth.type"] = "sigv4"
    return settings


def _jdbc_settings(name: str, properties: Properties) -> dict[str, str]:
    """Configures Iceberg's JDBC catalog for the database of PyIceberg's `sql` catalog.

    The schema version is set only if PyIceberg's property for it is set: otherwise Iceberg would alter the tables of a
    catalog that others may share.
    """
    url = _database_url(name, properties)
    settings = _sqlite_settings(name, url) if url.get_backend_name() == "sqlite" else _postgres_settings(name, url)
    settings["warehouse"] = properties.get("warehouse", _scratch_folder().as_uri())
    if version := properties.get("schema_version"):
        settings["jdbc.schema-version"] = version.upper()
    return settings


def _database_url(name: str, properties: Properties) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(properties.get("uri", ""))
    except ArgumentError as exc:
        raise ConfigError(f"The uri of the catalog '{name}' is not a valid database URL.", _SQL_URI_HINT) from exc
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigError(
            f"Spark cannot open the catalog '{name}' in a {url.get_backend_name()} database.", _SQL_URI_HINT
        )
    return url


def _sqlite_settings(name: str, url: URL) -> dict[str, str]:
    if url.database in (None, "", ":memory:"):
        raise ConfigError(f"The catalog '{name}' is in memory, so Spark cannot open it.", _SQL_URI_HINT)
    file = str(url.database)
    path = file if file.startswith("file:") else Path(file).absolute()
    return {"uri": f"jdbc:sqlite:{path}", "jdbc.busy_timeout": str(SQLITE_BUSY_TIMEOUT_MS)}


def _postgres_settings(name: str, url: URL) -> dict[str, str]:
    options = {key: value if isinstance(value, str) else value[-1] for key, value in url.query.items()}
    host = url.host or options.pop("host", "localhost")
    if host.startswith("/"):
        raise ConfigError(
            f"The catalog '{name}' uses a Unix socket, which Java does not support.",
            "Set a host and a port in its uri.",
        )
    settings = {f"jdbc.{_POSTGRES_OPTIONS.get(key, key)}": value for key, value in options.items()}
    address = f"[{host}]" if ":" in host else host
    settings["uri"] = f"jdbc:postgresql://{address}:{url.port or 5432}/{quote(url.database or '')}"
    if url.username:
        settings["jdbc.user"] = url.username
    if url.password:
        settings["jdbc.password"] = str(url.password)
    return settings
