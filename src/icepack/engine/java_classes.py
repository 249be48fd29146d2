"""Java classes of our own, compiled when they are first needed by the compiler that Spark carries."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_PACKAGE = "icepack"

_compiled: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def new_instance(spark: SparkSession, package: str, name: str, *arguments: Any) -> Any:
    """An object of the class in `name`.java of a Python package; the class has one constructor."""
    gateway = spark.sparkContext._gateway
    array = gateway.new_array(spark.sparkContext._jvm.java.lang.Object, len(arguments))
    for position, argument in enumerate(arguments):
        array[position] = argument
    return _class(spark, package, name).getConstructors()[0].newInstance(array)


def _class(spark: SparkSession, package: str, name: str) -> Any:
    """Compiled once for each JVM: a gateway has one for all its life."""
    known = _compiled.setdefault(spark.sparkContext._gateway, {})
    if name not in known:
        jvm = spark.sparkContext._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(files(package).joinpath(f"{name}.java").read_text("utf-8"))
        known[name] = compiler.getClassLoader().loadClass(f"{JAVA_PACKAGE}.{name}")
    return known[name]
