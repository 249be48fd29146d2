"""Compiles the Java sources that icepack compiles at run time, with the same compiler: a mistake fails `make check`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.conf import SparkConf
from pyspark.java_gateway import launch_gateway

from icepack.config.folders import user_folder
from icepack.engine.java.jars import JarStore
from icepack.engine.java.runtime import find_java, spark_java_home

SOURCES = Path(__file__).parents[1] / "src" / "icepack" / "engine"


def main() -> int:
    gateway = _launch()
    try:
        mistakes = [mistake for path in sorted(SOURCES.rglob("*.java")) if (mistake := _compile(gateway, path))]
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
    print("\n".join(mistakes), file=sys.stderr, end="\n" if mistakes else "")
    return 1 if mistakes else 0


def _launch() -> Any:
    """A JVM with the classes of Spark and Iceberg, and no Spark session."""
    java = find_java(None, os.environ)
    cache = user_folder("cache", os.environ)
    jars = JarStore(folder=cache / "jars", java=java, environ=os.environ).ensure({"base"})
    os.environ["JAVA_HOME"] = str(spark_java_home(java, cache))
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
    return launch_gateway(conf, popen_kwargs={"stderr": subprocess.DEVNULL})


def _compile(gateway: Any, path: Path) -> str | None:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    try:
        compiler.cook(path.read_text("utf-8"))
    except Py4JJavaError as error:
        return f"{path.relative_to(SOURCES.parents[2])}: {error.java_exception.getMessage()}"
    return None


if __name__ == "__main__":
    sys.exit(main())
