"""Spark's settings, derived from the catalogs as PyIceberg knows them."""

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

SECRET = r"(?i)secret|password|passwd|token|credential|access[._-]?key|account[._-]?key|connection-string|authorization"
SPARING_COMPILER = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=5000",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
"""Four times Java's own: a JVM of ours plans and commits, and is gone before its costly compiler has paid. Measured on
a rewrite of 50 files: 0.7 s of CPU in the JVM instead of 1.3 s. What runs long is compiled all the same."""
LOCAL_SHUFFLE_PARTITIONS = 8
SQLITE_BUSY_TIMEOUT_MS = 30_000

Properties = Mapping[str, str]

_IMPLEMENTATIONS = {"sql": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive"}
_INFERRED = {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
_S3_SCHEMES = ("s3", "s3a", "s3n")
_DELEGATION_HEADER = "header.X-Iceberg-Access-Delegation"
_SQL_URIS = "An sql catalog has a uri such as sqlite:////data/catalog.db or postgresql+psycopg://user@host/catalog."
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

_JOINTS = {
    "spark.jars": ",",
    "spark.sql.extensions": ",",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.driver.extraJavaOptions": " ",
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
    is_local = master.startswith("local")
    options = [*(SPARING_COMPILER if is_local else ()), *java_options]
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
        "spark.driver.extraJavaOptions": " ".join(map(_quoted, options)),
    }
    conf |= _local(jars) if is_local else {"spark.jars": ",".join(map(str, jars))}
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
    both = {key: _JOINTS[key].join([conf[key], user_conf[key]]) for key in _JOINTS if key in conf and key in user_conf}
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


def _passed_on(properties: Properties) -> dict[str, str]:
    ours = _PYTHON_ONLY | _RENAMED | _REWORDED
    return {key: value for key, value in properties.items() if key not in ours and not key.startswith("py-")}


def _renamed(properties: Properties) -> dict[str, str]:
    found = {
        java_name: next((properties[name] for name in names if name in properties), None)
        for java_name, names in _IN_PYICEBERG.items()
    }
    return {java_name: value for java_name, value in found.items() if value is not None}


def _s3(properties: Properties) -> dict[str, str]:
    settings = _s3_endpoint(properties)
    if _is_true(properties.get("s3.anonymous")):
        settings["client.credentials-provider"] = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
    if properties.get("s3.signer") == "S3V4RestSigner":
        settings["s3.remote-signing-enabled"] = "true"
    if encryption := properties.get("s3.server-side-encryption"):
        settings["s3.sse.type"] = _ENCRYPTION.get(encryption, encryption)
    for name, java_name in (("s3.connect-timeout", "connection"), ("s3.request-timeout", "socket")):
        if name in properties:
            settings[f"http-client.apache.{java_name}-timeout-ms"] = str(int(float(properties[name]) * 1000))
    if "s3.role-arn" in properties or "client.role-arn" in properties:
        settings["client.factory"] = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
        settings["client.assume-role.region"] = _renamed(properties).get("client.region", "us-east-1")
    return settings


def _s3_endpoint(properties: Properties) -> dict[str, str]:
    """As PyArrow does it: a server of one's own is asked by path, and in any region."""
    endpoint = urlsplit(properties.get("s3.endpoint", "")).hostname
    settings = {}
    if "s3.force-virtual-addressing" in properties:
        settings["s3.path-style-access"] = "false" if _is_true(properties["s3.force-virtual-addressing"]) else "true"
    elif endpoint and "s3.path-style-access" not in properties:
        settings["s3.path-style-access"] = "true"
    if endpoint and not endpoint.endswith(".amazonaws.com") and "client.region" not in _renamed(properties):
        settings["client.region"] = "us-east-1"
    return settings


def _is_true(value: str | None) -> bool:
    return str(value).lower() in ("true", "1", "yes", "on")


def _warehouse_scheme(properties: Properties) -> str:
    return urlsplit(properties.get("warehouse", "")).scheme


def _on_s3(properties: Properties) -> bool:
    scheme = _warehouse_scheme(properties)
    return scheme in _S3_SCHEMES or (not scheme and any(key.startswith("s3.") for key in properties))


def _rest(properties: Properties) -> dict[str, str]:
    settings = {}
    if not any(key.lower() == _DELEGATION_HEADER.lower() for key in properties):
        settings[_DELEGATION_HEADER] = "vended-credentials"
    if _is_true(properties.get("rest.sigv4-enabled")):
        settings["rest.auth.type"] = "sigv4"
    return settings


def _jdbc(name: str, properties: Properties) -> dict[str, str]:
    """Iceberg's JDBC catalog on the database of PyIceberg's `sql` catalog.

    Its schema version is left as it is found unless PyIceberg is asked to raise it: Iceberg would
    otherwise alter the tables of a catalog that others share.
    """
    url = _url(name, properties)
    settings = _sqlite(name, url) if url.get_backend_name() == "sqlite" else _postgres(name, url)
    settings["warehouse"] = properties.get("warehouse", _scratch().as_uri())
    if version := properties.get("schema_version"):
        settings["jdbc.schema-version"] = version.upper()
    return settings


def _url(name: str, properties: Properties) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(properties.get("uri", ""))
    except ArgumentError as exc:
        raise ConfigError(f"The uri of the catalog '{name}' is not a database's URL.", _SQL_URIS) from exc
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigError(f"Spark cannot open the catalog '{name}' on {url.get_backend_name()}.", _SQL_URIS)
    return url


def _sqlite(name: str, url: URL) -> dict[str, str]:
    if url.database in (None, "", ":memory:"):
        raise ConfigError(f"The catalog '{name}' is in memory, where Spark cannot see it.", _SQL_URIS)
    file = str(url.database)
    path = file if file.startswith("file:") else Path(file).absolute()
    return {"uri": f"jdbc:sqlite:{path}", "jdbc.busy_timeout": str(SQLITE_BUSY_TIMEOUT_MS)}


def _postgres(name: str, url: URL) -> dict[str, str]:
    options = {key: value if isinstance(value, str) else value[-1] for key, value in url.query.items()}
    host = url.host or options.pop("host", "localhost")
    if host.startswith("/"):
        raise ConfigError(
            f"The catalog '{name}' is on a Unix socket, which Java cannot use.", "Name a host and a port."
        )
    settings = {f"jdbc.{_POSTGRES_WORDS.get(key, key)}": value for key, value in options.items()}
    address = f"[{host}]" if ":" in host else host
    settings["uri"] = f"jdbc:postgresql://{address}:{url.port or 5432}/{quote(url.database or '')}"
    if url.username:
        settings["jdbc.user"] = url.username
    if url.password:
        settings["jdbc.password"] = str(url.password)
    return settings
