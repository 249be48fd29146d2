"""One Spark session and one lake for the whole process; every test makes tables of its own in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from icepack.config.folders import EmbeddedLake, user_folder
from icepack.engine.java.jars import JarStore
from icepack.engine.java.runtime import find_java, spark_java_home
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark_conf import jar_purposes, session_conf

from .lakes import Lake

SPEED = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""To plan again and to compile a query costs far more than to run it on a handful of rows."""


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    place = EmbeddedLake(tmp_path_factory.mktemp("lake"))
    lake = Lake(place, SparkSessions(lambda: _settings(place)))
    try:
        yield lake
    finally:
        lake.close()


def _settings(place: EmbeddedLake) -> SessionSettings:
    java = find_java(None, os.environ)
    cache = user_folder("cache", os.environ)
    catalogs = {"lake": place.properties}
    jars = JarStore(folder=cache / "jars", java=java, environ=os.environ).ensure(jar_purposes(catalogs))
    conf = session_conf(catalogs=catalogs, jars=jars, user_conf=SPEED, master="local[2]", driver_memory="1500m")
    return SessionSettings(master="local[2]", conf=conf, java_home=spark_java_home(java, cache))
