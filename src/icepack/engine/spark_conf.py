"""Spark's settings, derived from the catalogs as PyIceberg knows them."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from icepack.errors import ConfigError

SECRET = r"(?i)secret|password|passwd|token|credential|access[._-]?key|account[._-]?key|connection-string|authorization"
LOCAL_SHUFFLE_PARTITIONS = 8
SQLITE_BUSY_TIMEOUT_MS = 30_000

Properties = Mapping[str, str]

_IMPLEMENTATIONS = {"sql": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive"}
_INFERRED = {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
_S3_SCHEMES = ("s3", "s3a", "s3n")
_DELEGATION_HEADER = "header.X-Iceberg-Access-Delegation"
_ENCRYPTION = {"AES256": "s3", "aws:kms": "kms", "aws:kms:dsse": "dsse-kms"}
_PYTHON_ONLY = {"type", "echo", "pool_pre_ping", "schema_version", "init_catalog_tables", "botocore_session"}
_POSTGRES_WORDS = {"application_name": "ApplicationName", "connect_timeout": "connectTimeout"}

# Iceberg Java's name, and the names PyIceberg has for it, the most specific first.
_IN_PYICEBERG = {
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
_RENAMED = {name for names in _IN_PYICEBERG.values() for name in names}
_REWORDED = {
    "s3.anonymous",
    "s3.connect-timeout",
    "s3.force-virtual-addressing",
    "s3.request-timeout",
    "s3.server-side-encryption",
    "s3.signer",
    "rest.sigv4-enabled",
}


def spark_catalog_name(name: str, properties: Properties) -> str:
    """What Spark calls the catalog: its own name wherever Spark can have it.

    Spark reads the name as a regular expression and refuses dots. Another name will do except for
    `sql`, where the name is part of every row in the catalog's database.
    """
    if name != "global_temp" and name == re.sub(r"[.^$*+?()\[\]{}|\\]", "", name):
        return name
    if _type(name, properties) == "sql":
        raise ConfigError(
            f"Spark cannot open a catalog named '{name}', and an sql catalog keeps its name in its database.",
            "Use a name without . ^ $ * + ? ( ) [ ] { } | \\ for it.",
        )
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def spark_catalog_conf(name: str, properties: Properties) -> dict[str, str]:
    """`spark.sql.catalog.…` for one catalog; properties that are not known here are passed on as they are."""
    kind = _type(name, properties)
    settings = {**_passed_on(properties), **_renamed(properties), **_s3(properties)}
    if kind == "sql":
        settings |= _jdbc(name, properties)
    if kind == "rest":
        settings |= _rest(properties)
    elif _on_s3(properties):
        settings.setdefault("io-impl", "org.apache.iceberg.aws.s3.S3FileIO")
    settings |= {"type": _IMPLEMENTATIONS[kind], "cache-enabled": "false"}
    prefix = f"spark.sql.catalog.{spark_catalog_name(name, properties)}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in settings.items()},
    }


def jar_purposes(catalogs: Mapping[str, Properties]) -> set[str]:
    """Which groups of jars these catalogs need."""
    purposes = {"base"}
    for name, properties in catalogs.items():
        kind = _type(name, properties)
        if kind == "sql" and _url(name, properties).get_backend_name() == "postgresql":
            purposes.add("postgres")
        # Where a REST catalog's tables lie is known to its server alone.
        if kind == "glue" or _on_s3(properties) or (kind == "rest" and not _warehouse_scheme(properties)):
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
    """All settings of the session; the user's win, and add to ours where both can be had."""
    conf = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": SECRET,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": _scratch().as_uri(),
        "spark.driver.extraJavaOptions": " ".join(_quoted(option) for option in java_options),
    }
    conf |= _local(jars) if master.startswith("local") else {"spark.jars": ",".join(map(str, jars))}
    if driver_memory:
        conf["spark.driver.memory"] = driver_memory
    for name, properties in catalogs.items():
        conf |= spark_catalog_conf(name, properties)
    return _merged({key: value for key, value in conf.items() if value}, user_conf)


def launch_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that may stand on the JVM's command line, which every user of the machine can read."""
    return {
        key: value
        for key, value in conf.items()
        if not key.startswith("spark.sql.catalog.") and not re.search(SECRET, key)
    }


def _local(jars: Sequence[Path]) -> dict[str, str]:
    """A local master answers on the loopback only and reads the jars in place instead of copying them."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.sql.shuffle.partitions": str(LOCAL_SHUFFLE_PARTITIONS),
    }


def _merged(conf: Mapping[str, str], user_conf: Mapping[str, str]) -> dict[str, str]:
    joints = {
        "spark.jars": ",",
        "spark.sql.extensions": ",",
        "spark.driver.extraClassPath": os.pathsep,
        "spark.driver.extraJavaOptions": " ",
    }
    both = {key: joint.join([conf[key], user_conf[key]]) for key, joint in joints.items() if conf.keys() & {key} & user_conf.keys()}
    return {**conf, **user_conf, **both}


def _scratch() -> Path:
    return Path(tempfile.gettempdir()) / f"icepack-spark-{os.getuid()}"


def _quoted(option: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'


def _type(name: str, properties: Properties) -> str:
    scheme = re.split(r"[:+]", properties.get("uri", ""))[0]
    kind = properties.get("type", _INFERRED.get(scheme, "")).lower()
    if kind not in _IMPLEMENTATIONS:
        what = f"of type '{kind}'" if kind else "without a type"
        raise ConfigError(f"Spark cannot open the catalog '{name}' {what}.", "Its type can be sql, rest, glue or hive.")
    return kind
