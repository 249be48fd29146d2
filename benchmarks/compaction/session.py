"""The embedded lake and the Spark session that every process of the benchmark opens in the same way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.compaction.fake_s3 import NAME

from icepack.config.folders import LAKE, EmbeddedLake, user_folder
from icepack.domain.table import TableId
from icepack.engine.java.jars import JarStore
from icepack.engine.java.runtime import find_java, spark_java_home
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark_conf import jar_purposes, session_conf

NAMESPACE = "bench"
BUCKET = "bucket"
CORES = 2
# The memory with which icepack itself starts a local session.
DRIVER_MEMORY = "2g"

_ENDPOINT = "endpoint"


def table_id(catalog: str, name: str) -> TableId:
    return TableId(catalog, (NAMESPACE,), name)


def catalogs(folder: Path) -> dict[str, Mapping[str, str]]:
    """Returns the lake on disk, for measuring time, and one in a bucket, for counting requests."""
    return {LAKE: EmbeddedLake(folder).properties, BUCKET: _bucket_properties(folder)}


def write_endpoint(folder: Path, endpoint: str) -> None:
    """Writes the address of the bucket for the processes that are started later."""
    (folder / _ENDPOINT).write_text(endpoint)


def _bucket_properties(folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder / 'bucket.db'}",
        "warehouse": f"s3://{NAME}/warehouse",
        "s3.endpoint": (folder / _ENDPOINT).read_text(),
        "s3.access-key-id": "bench",
        "s3.secret-access-key": "bench",
        "s3.region": "us-east-1",
    }


def sessions(folder: Path) -> SparkSessions:
    return SparkSessions(lambda: _settings(folder))


def _settings(folder: Path) -> SessionSettings:
    """Uses the session that icepack starts for all engines, without tuning it for any of them."""
    java = find_java(None, os.environ)
    cache = user_folder("cache", os.environ)
    found = catalogs(folder)
    jars = JarStore(folder=cache / "jars", java=java, environ=os.environ).ensure(jar_purposes(found))
    master = f"local[{CORES}]"
    conf = session_conf(catalogs=found, jars=jars, user_conf={}, master=master, driver_memory=DRIVER_MEMORY)
    return SessionSettings(
        master=master, conf=conf, java_home=spark_java_home(java, cache), log_file=folder / "spark.log"
    )
