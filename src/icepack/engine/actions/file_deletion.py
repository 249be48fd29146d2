"""Deleting files, last: after the metadata was read again and nothing refers to them any more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icepack.engine.java.errors import causes, first_line
from icepack.errors import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MEASURERS = 8
_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class Deletion:
    files: int
    bytes: int
    failures: tuple[str, ...] = ()


def collector(spark: SparkSession) -> tuple[Any, Any]:
    """A Java queue and a Consumer that adds to it: the actions hand over paths instead of deleting them.

    Made from a method handle, because a Python callback would have to cross the gateway for every file.
    """
    jvm = spark.sparkContext._jvm
    gateway = spark.sparkContext._gateway
    queue = jvm.java.util.concurrent.ConcurrentLinkedQueue()
    type_of = jvm.java.lang.Class.forName
    handles = jvm.java.lang.invoke.MethodHandles
    object_class = type_of("java.lang.Object")
    no_more = gateway.new_array(jvm.java.lang.Class, 0)
    one_object = jvm.java.lang.invoke.MethodType.methodType(jvm.java.lang.Boolean.TYPE, object_class, no_more)
    add = handles.publicLookup().bind(queue, "add", one_object)
    consumer = jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(type_of("java.util.function.Consumer"), add)
    return queue, consumer


def drain(spark: SparkSession, queue: Any) -> list[str]:
    """All collected paths in one trip over the gateway."""
    joined = spark.sparkContext._jvm.java.lang.String.join(_SEPARATOR, queue)
    return sorted(set(joined.split(_SEPARATOR))) if joined else []


def unreferenced(spark: SparkSession, table: Any, paths: Sequence[str]) -> list[str]:
    """Of these paths, the ones that the table's metadata, read again now, does not refer to."""
    if not paths:
        return []
    table.refresh()
    # As Arrow, because a list of rows would start Python workers only to hand it back.
    listed = spark.createDataFrame(pa.table({"file_path": pa.array(paths, pa.string())})).selectExpr(
        "file_path", "timestamp_millis(0) AS last_modified"
    )
    queue, consumer = collector(spark)
    actions = spark.sparkContext._jvm.org.apache.iceberg.spark.actions.SparkActions
    (
        actions.get(spark._jsparkSession)
        .deleteOrphanFiles(table)
        .compareToFileList(listed._jdf)
        .location("")
        .olderThan(1)
        .deleteWith(consumer)
        .execute()
    )
    return drain(spark, queue)


def delete(spark: SparkSession, table: Any, paths: Sequence[str], threads: int = 1) -> Deletion:
    """Deletes the files, in bulk where the storage can, else one by one in so many threads; says what could not be."""
    if not paths:
        return Deletion(0, 0)
    io = table.io()
    sizes = dict(zip(paths, _sizes(io, paths), strict=True))
    failures = _delete_in_bulk(spark, io, paths) if _is_bulk(spark, io) else _delete_singly(io, paths, threads)
    deleted = [path for path in paths if path not in failures]
    reasons = tuple(f"{path}: {reason}" for path, reason in failures.items())
    return Deletion(len(deleted), sum(sizes[path] for path in deleted), reasons)


def _is_bulk(spark: SparkSession, io: Any) -> bool:
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(spark.sparkContext._gateway, io, "org.apache.iceberg.io.SupportsBulkOperations"))


def _delete_in_bulk(spark: SparkSession, io: Any, paths: Sequence[str]) -> dict[str, str]:
    """What is still there afterwards, and why."""
    from py4j.protocol import Py4JJavaError

    java_paths = spark.sparkContext._jvm.java.util.ArrayList()
    for path in paths:
        java_paths.add(path)
    try:
        io.deleteFiles(java_paths)
    except Py4JJavaError as exc:
        failed = [path for path in paths if io.newInputFile(path).exists()]
        if not failed:
            raise
        return dict.fromkeys(failed, _reason(exc))
    return {}


def _delete_singly(io: Any, paths: Sequence[str], threads: int) -> dict[str, str]:
    """What could not be deleted, and why."""

    def remove(path: str) -> str | None:
        from py4j.protocol import Py4JJavaError

        try:
            io.deleteFile(path)
        except Py4JJavaError as exc:
            return _reason(exc)
        return None

    with ThreadPoolExecutor(threads) as pool:
        reasons = zip(paths, pool.map(remove, paths), strict=True)
        return {path: reason for path, reason in reasons if reason is not None}


def _reason(exc: Any) -> str:
    _, message = next(causes(exc.java_exception))
    return redact(first_line(message))


def _sizes(io: Any, paths: Sequence[str]) -> list[int]:
    def measure(path: str) -> int:
        from py4j.protocol import Py4JJavaError

        try:
            return int(io.newInputFile(path).getLength())
        except Py4JJavaError:
            return 0

    with ThreadPoolExecutor(_MEASURERS) as pool:
        return list(pool.map(measure, paths))
