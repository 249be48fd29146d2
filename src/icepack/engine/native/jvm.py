"""The JVM's side of the native rewrite, compiled by the compiler that Spark carries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from icepack.engine.java_errors import causes, classify, java_faults
from icepack.errors import CommitConflict, CommitStateUnknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITTING = "Committing a native compaction"
CLEANABLE = "org.apache.iceberg.exceptions.CleanableFailure"
"""What Iceberg throws where a commit has surely not landed."""

_compiled: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A data file of the snapshot that is rewritten, with the numbers of the deletes that apply to it."""

    path: str
    format: str
    spec_id: int
    bytes: int
    records: int
    sequence_number: int
    first_row_id: int | None = None
    encrypted: bool = False
    deletes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDelete:
    kind: str
    path: str
    format: str
    bytes: int
    records: int
    sequence_number: int
    encrypted: bool = False
    offset: int = 0
    length: int = 0
    equality_ids: tuple[int, ...] = ()

    @property
    def identity(self) -> tuple[str, int]:
        return self.path, self.offset


class JavaRewrite:
    """The files of one snapshot that are to be rewritten; holds Iceberg's own objects for them."""

    def __init__(self, spark: SparkSession, table: Any, snapshot_id: int, paths: Sequence[str]) -> None:
        self._spark = spark
        self._java = _new(spark, table, snapshot_id, "\0".join(paths))
        said = json.loads(self._java.describe())
        self.deletes = [LiveDelete(**_tupled(row, "equality_ids")) for row in said["deletes"]]
        self.files = {row["path"]: LiveFile(**_tupled(row, "deletes")) for row in said["files"]}

    def location(self, like: str, name: str) -> str:
        return str(self._java.location(like, name))

    def commit(self, removed: Sequence[str], added: Sequence[Mapping[str, Any]], summary: Mapping[str, str]) -> None:
        """Raises CommitStateUnknown where it may have landed; after any other failure it has not."""
        properties = self._spark.sparkContext._jvm.java.util.HashMap()
        for key, value in summary.items():
            properties.put(key, value)
        request = json.dumps({"removed": list(removed), "added": list(added)})
        with java_faults(COMMITTING):
            prepared = self._java.prepare(request, properties)
        self._land(prepared)
        self._java.landed(request)

    def _land(self, prepared: Any) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            prepared.commit()
        except Py4JJavaError as exc:
            fault = classify(list(causes(exc.java_exception)), COMMITTING)
            if isinstance(fault, CommitConflict | CommitStateUnknown) or self._is_known_to_have_failed(exc):
                raise fault from exc
            raise CommitStateUnknown(f"{fault} Whether the commit landed is not known.") from exc
        except BaseException as exc:
            raise CommitStateUnknown(f"{COMMITTING}: the answer was not waited for ({type(exc).__name__}).") from exc

    def _is_known_to_have_failed(self, failure: Any) -> bool:
        from py4j.java_gateway import is_instance_of

        gateway = self._spark.sparkContext._gateway
        return bool(is_instance_of(gateway, failure.java_exception, CLEANABLE))


def _tupled(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {**row, key: tuple(row.get(key, ()))}


def _new(spark: SparkSession, *arguments: Any) -> Any:
    gateway = spark.sparkContext._gateway
    array = gateway.new_array(spark.sparkContext._jvm.java.lang.Object, len(arguments))
    for position, argument in enumerate(arguments):
        array[position] = argument
    return _class(spark).getConstructors()[0].newInstance(array)


def _class(spark: SparkSession) -> Any:
    """Once for each JVM: a gateway has one for all its life."""
    key = spark.sparkContext._gateway
    if key not in _compiled:
        jvm = spark.sparkContext._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(files(__package__).joinpath("Rewrite.java").read_text("utf-8"))
        _compiled[key] = compiler.getClassLoader().loadClass("icepack.Rewrite")
    return _compiled[key]
