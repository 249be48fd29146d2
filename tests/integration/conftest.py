"""Provides one Spark session and one lake for all tests; every test creates its own tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from icepack.config.folders import EmbeddedLake, user_folder
from icepack.engine.java.jars import JarStore
from icepack.engine.java.runtime import find_java, spark_java_home
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark_conf import jar_purposes, session_conf
from icepack.service.runs.request import RunDependencies
from icepack.store.backend import open_stores

from .lake import Lake

# Settings for small tables, where planning and compiling a query costs far more than running it.
FAST_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    embedded = EmbeddedLake(tmp_path_factory.mktemp("lake"))
    lake = Lake(embedded, SparkSessions(lambda: _session_settings(embedded)))
    try:
        yield lake
    finally:
        lake.close()


def _session_settings(embedded: EmbeddedLake) -> SessionSettings:
    java = find_java(None, os.environ)
    cache = user_folder("cache", os.environ)
    catalogs = {"lake": embedded.properties}
    jars = JarStore(folder=cache / "jars", java=java, environ=os.environ).ensure(jar_purposes(catalogs))
    conf = session_conf(catalogs=catalogs, jars=jars, user_conf=FAST_SETTINGS, master="local[2]", driver_memory="1500m")
    return SessionSettings(master="local[2]", conf=conf, java_home=spark_java_home(java, cache))


@pytest.fixture
def dependencies(lake: Lake, tmp_path: Path) -> Iterator[RunDependencies]:
    """Uses a new state database for every test, so that no test trusts file classes of another."""
    stores = open_stores(f"sqlite:///{tmp_path / 'state.db'}")
    yield lake.with_dependencies(verification=stores.verification)
    stores.close()
