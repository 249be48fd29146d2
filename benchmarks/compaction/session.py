"""The embedded lake and the Spark session that every process of the benchmark opens alike."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from icepack.config.folders import LAKE, EmbeddedLake, user_folder
from icepack.domain.table import TableId
from icepack.engine.jars import JarStore
from icepack.engine.java import find_java, spark_java_home
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark_conf import jar_purposes, session_conf

NAMESPACE = "bench"
CORES = 2
DRIVER_MEMORY = "2g"
"""What icepack itself starts a local session with."""


def table_id(name: str) -> TableId:
    return TableId(LAKE, (NAMESPACE,), name)


def catalogs(folder: Path) -> dict[str, Mapping[str, str]]:
    return {LAKE: EmbeddedLake(folder).properties}


def sessions(folder: Path) -> SparkSessions:
    return SparkSessions(lambda: _settings(folder))


def _settings(folder: Path) -> SessionSettings:
    """Nothing is tuned for one engine or the other; the JVM compiles as it does by default."""
    java = find_java(None, os.environ)
    cache = user_folder("cache", os.environ)
    found = catalogs(folder)
    jars = JarStore(folder=cache / "jars", java=java, environ=os.environ).ensure(jar_purposes(found))
    master = f"local[{CORES}]"
    conf = session_conf(catalogs=found, jars=jars, user_conf={}, master=master, driver_memory=DRIVER_MEMORY)
    return SessionSettings(
        master=master, conf=conf, java_home=spark_java_home(java, cache), log_file=folder / "spark.log"
    )
