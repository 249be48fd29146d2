"""The embedded lake and the Spark session that every process of the benchmark opens alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.compaction.bucket import NAME

from icepack.config.folders import LAKE, EmbeddedLake, user_folder
from icepack.domain.table import TableId
from icepack.engine.java.jars import JarStore
from icepack.engine.java.runtime import find_java, spark_java_home
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark_conf import jar_purposes, session_conf

NAMESPACE = "bench"
BUCKET = "bucket"
CORES = 2
DRIVER_MEMORY = "2g"
"""What icepack itself starts a local session with."""

_ENDPOINT = "endpoint"


def table_id(catalog: str, name: str) -> TableId:
    return TableId(catalog, (NAMESPACE,), name)


def catalogs(folder: Path) -> dict[str, Mapping[str, str]]:
    """The lake on disk, where times are taken, and a second one in a bucket, where requests are counted."""
    return {LAKE: EmbeddedLake(folder).properties, BUCKET: _bucket_properties(folder)}


def tell_endpoint(folder: Path, endpoint: str) -> None:
    """For the processes that will be started: where the bucket is."""
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
    """Nothing is tuned for one engine or the other; both have the session that icepack starts."""
    java = find_java(None, os.environ)
    cache = user_folder("cache", os.environ)
    found = catalogs(folder)
    jars = JarStore(folder=cache / "jars", java=java, environ=os.environ).ensure(jar_purposes(found))
    master = f"local[{CORES}]"
    conf = session_conf(catalogs=found, jars=jars, user_conf={}, master=master, driver_memory=DRIVER_MEMORY)
    return SessionSettings(
        master=master, conf=conf, java_home=spark_java_home(java, cache), log_file=folder / "spark.log"
    )
