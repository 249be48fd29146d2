"""Java classes of our own, compiled when they are first needed by the compiler that Spark carries."""

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
    """An object of the class in `name`.java of a Python package; the class has one constructor."""
    gateway = spark.sparkContext._gateway
    array = gateway.new_array(spark.sparkContext._jvm.java.lang.Object, len(arguments))
    for position, argument in enumerate(arguments):
        array[position] = argument
    return _class(spark, package, name).getConstructors()[0].newInstance(array)


def ship_class(spark: SparkSession, package: str, name: str) -> None:
    """Sends the class to the executors, once for each Spark context, so that tasks can use objects of it.

    Executors fetch the jar from the driver when they need it, so it stays there until the driver ends.
    """
    context = spark.sparkContext
    shipped = _shipped.setdefault(context, set())
    if name in shipped:
        return
    folder = Path(mkdtemp(prefix="icepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    jar = folder / f"icepack-{name}-{folder.name}.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        for class_name, code in _compiler(spark, package, name).getBytecodes().items():
            packed.writestr(f"{class_name.replace('.', '/')}.class", bytes(code))
    context._jsc.addJar(str(jar))
    shipped.add(name)


def _class(spark: SparkSession, package: str, name: str) -> Any:
    return _compiler(spark, package, name).getClassLoader().loadClass(f"{JAVA_PACKAGE}.{name}")


def _compiler(spark: SparkSession, package: str, name: str) -> Any:
    """A class is compiled once for each JVM: a gateway has one for all its life."""
    known = _compilers.setdefault(spark.sparkContext._gateway, {})
    if name not in known:
        jvm = spark.sparkContext._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(files(package).joinpath(f"{name}.java").read_text("utf-8"))
        known[name] = compiler
    return known[name]
