"""Compiles icepack's Java classes on first use, with the Janino compiler that is part of Spark."""

from __future__ import annotations

import atexit
import shutil
import zipfile
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_PACKAGE = "icepack"

_compilers: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_shipped: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def new_instance(spark: SparkSession, package: str, name: str, *arguments: Any) -> Any:
    """Creates an object of the class in `name`.java of a Python package; the class must have one constructor."""
    gateway = spark.sparkContext._gateway
    array = gateway.new_array(spark.sparkContext._jvm.java.lang.Object, len(arguments))
    for position, argument in enumerate(arguments):
        array[position] = argument
    return _load_class(spark, package, name).getConstructors()[0].newInstance(array)


def ship_class(spark: SparkSession, package: str, name: str) -> None:
    """Makes the class available to tasks on executors, once per Spark context.

    Executors fetch the jar from the driver when they need it, so it is deleted only when the driver process ends.
    """
    context = spark.sparkContext
    shipped = _shipped.setdefault(context, set())
    if name in shipped:
        return
    folder = Path(mkdtemp(prefix="icepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    jar = folder / f"icepack-{name}-{folder.name}.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for class_name, code in _compile(spark, package, name).getBytecodes().items():
            packed.writestr(f"{class_name.replace('.', '/')}.class", bytes(code))
    context._jsc.addJar(str(jar))
    shipped.add(name)


def _load_class(spark: SparkSession, package: str, name: str) -> Any:
    return _compile(spark, package, name).getClassLoader().loadClass(f"{JAVA_PACKAGE}.{name}")


def _compile(spark: SparkSession, package: str, name: str) -> Any:
    """Compiles a class once per JVM; each gateway belongs to one JVM."""
    compilers = _compilers.setdefault(spark.sparkContext._gateway, {})
    if name not in compilers:
        jvm = spark.sparkContext._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(files(package).joinpath(f"{name}.java").read_text("utf-8"))
        compilers[name] = compiler
    return compilers[name]
