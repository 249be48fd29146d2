"""Deletes files, after reloaded metadata confirms that nothing references them any more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icepack.domain.ports.engine import EngineResult
from icepack.engine.java.errors import causes, first_line
from icepack.engine.java.iceberg_actions import get_actions
from icepack.errors import Refused, redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIZE_THREADS = 8
_SEPARATOR = "\0"
# The maximum number of failures that a result lists.
_MAX_REPORTED_FAILURES = 20


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """The number and size of the deleted files, and a message for each file that could not be deleted."""

    files: int
    bytes: int
    failures: tuple[str, ...] = ()

    def to_engine_result(self) -> EngineResult:
        return EngineResult(
            files_deleted=self.files,
            bytes_deleted=self.bytes,
            failed_groups=len(self.failures),
            details={"failures": list(self.failures[:_MAX_REPORTED_FAILURES])} if self.failures else {},
        )


def check_deletion_allowed(properties: Mapping[str, str]) -> None:
    if properties.get("gc.enabled", "true").lower() != "true":
        raise Refused(
            "The table sets gc.enabled to false: its files may belong to another table.",
            "Set gc.enabled to true first, if the table owns them.",
        )


def create_path_collector(spark: SparkSession) -> tuple[Any, Any]:
    """Returns a Java queue and a Consumer that adds to it, so that an action collects paths instead of deleting them.

    The Consumer wraps a method handle, because a Python callback would cause a gateway call for every file.
    """
    jvm = spark.sparkContext._jvm
    gateway = spark.sparkContext._gateway
    queue = jvm.java.util.concurrent.ConcurrentLinkedQueue()
    class_for_name = jvm.java.lang.Class.forName
    handles = jvm.java.lang.invoke.MethodHandles
    object_class = class_for_name("java.lang.Object")
    no_more_parameters = gateway.new_array(jvm.java.lang.Class, 0)
    signature = jvm.java.lang.invoke.MethodType.methodType(jvm.java.lang.Boolean.TYPE, object_class, no_more_parameters)
    add = handles.publicLookup().bind(queue, "add", signature)
    consumer_class = class_for_name("java.util.function.Consumer")
    consumer = jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(consumer_class, add)
    return queue, consumer


def drain_paths(spark: SparkSession, queue: Any) -> list[str]:
    """Fetches all collected paths with one gateway call."""
    joined = spark.sparkContext._jvm.java.lang.String.join(_SEPARATOR, queue)
    return sorted(set(joined.split(_SEPARATOR))) if joined else []


def filter_unreferenced(spark: SparkSession, table: Any, paths: Sequence[str]) -> list[str]:
    """Reloads the table's metadata and returns the paths that it does not reference."""
    if not paths:
        return []
    table.refresh()
    # Passed as Arrow, because Spark would start Python workers to convert a list of rows.
    file_list = spark.createDataFrame(pa.table({"file_path": pa.array(paths, pa.string())})).selectExpr(
        "file_path", "timestamp_millis(0) AS last_modified"
    )
    queue, consumer = create_path_collector(spark)
    (
        get_actions(spark)
        .deleteOrphanFiles(table)
        .compareToFileList(file_list._jdf)
        .location("")
        .olderThan(1)
        .deleteWith(consumer)
        .execute()
    )
    return drain_paths(spark, queue)


def delete_files(spark: SparkSession, table: Any, paths: Sequence[str], threads: int = 1) -> DeletionResult:
    """Deletes the files in bulk if the storage supports it, otherwise one by one in the given number of threads."""
    if not paths:
        return DeletionResult(0, 0)
    io = table.io()
    sizes = dict(zip(paths, _sizes(io, paths), strict=True))
    failures = _delete_in_bulk(spark, io, paths) if _supports_bulk(spark, io) else _delete_singly(io, paths, threads)
    deleted = [path for path in paths if path not in failures]
    reasons = tuple(f"{path}: {reason}" for path, reason in failures.items())
    return DeletionResult(len(deleted), sum(sizes[path] for path in deleted), reasons)


def _supports_bulk(spark: SparkSession, io: Any) -> bool:
    from py4j.java_gateway import is_instance_of

    return bool(is_instance_of(spark.sparkContext._gateway, io, "org.apache.iceberg.io.SupportsBulkOperations"))


def _delete_in_bulk(spark: SparkSession, io: Any, paths: Sequence[str]) -> dict[str, str]:
    """Returns the paths that still exist afterwards, with the reason."""
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
    """Returns the paths that could not be deleted, with the reason."""

    def delete(path: str) -> str | None:
        from py4j.protocol import Py4JJavaError

        try:
            io.deleteFile(path)
        except Py4JJavaError as exc:
            return _reason(exc)
        return None

    with ThreadPoolExecutor(threads) as pool:
        reasons = zip(paths, pool.map(delete, paths), strict=True)
        return {path: reason for path, reason in reasons if reason is not None}


def _reason(exc: Any) -> str:
    _, message = next(causes(exc.java_exception))
    return redact(first_line(message))


def _sizes(io: Any, paths: Sequence[str]) -> list[int]:
    def read_size(path: str) -> int:
        from py4j.protocol import Py4JJavaError

        try:
            return int(io.newInputFile(path).getLength())
        except Py4JJavaError:
            return 0

    with ThreadPoolExecutor(_SIZE_THREADS) as pool:
        return list(pool.map(read_size, paths))
