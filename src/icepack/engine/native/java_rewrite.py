"""Wraps Rewrite.java, the part of the native rewrite that runs in the driver's JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icepack.engine.java.classes import new_instance
from icepack.engine.java.errors import causes, classify, wrap_java_errors
from icepack.errors import CommitConflict, CommitStateUnknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The name of the operation in error messages.
OPERATION = "Committing a native compaction"
# Iceberg throws exceptions of this type if a commit has definitely failed.
CLEANABLE_FAILURE = "org.apache.iceberg.exceptions.CleanableFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A data file of the snapshot, with the numbers of the deletes that apply to it."""

    path: str
    format: str
    spec_id: int
    bytes: int
    records: int
    sequence_number: int
    first_row_id: int | None = None
    encrypted: bool = False
    deletes: tuple[int, ...] = ()
    # The values of columns with an identity partition, by field id, in Iceberg's JSON form.
    constants: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDelete:
    """A delete file or deletion vector of the snapshot."""

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
    """The files of one snapshot that are rewritten; the Java object keeps Iceberg's scan tasks for them."""

    def __init__(self, spark: SparkSession, table: Any, snapshot_id: int, paths: Sequence[str]) -> None:
        self._spark = spark
        self.snapshot_id = snapshot_id
        self._java = new_instance(spark, __package__, "Rewrite", table, snapshot_id, "\0".join(paths))
        description = json.loads(self._java.describe())
        self.deletes = [LiveDelete(**_with_tuple(row, "equality_ids")) for row in description["deletes"]]
        self.files = {row["path"]: _live_file(row) for row in description["files"]}

    def input_tasks(self, paths: Sequence[str]) -> Any:
        """Iceberg's scan tasks for these files, with the deletes that apply to them."""
        return self._java.inputTasks("\0".join(paths))

    def output_tasks(self, added: Sequence[Mapping[str, Any]]) -> Any:
        """Iceberg's scan tasks for files that are not committed yet."""
        return self._java.outputTasks(json.dumps({"added": list(added)}))

    def output_metrics(self, added: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The metrics that the manifest will have for each of these files, by path."""
        found: dict[str, Any] = json.loads(self._java.outputMetrics(json.dumps({"added": list(added)})))
        return found

    def location(self, like: str, name: str) -> str:
        """The location for a new file in the partition of the file `like`."""
        return str(self._java.location(like, name))

    def commit(self, removed: Sequence[str], added: Sequence[Mapping[str, Any]], summary: Mapping[str, str]) -> None:
        """Raises CommitStateUnknown if the commit may have succeeded; after any other error it has failed."""
        properties = self._spark.sparkContext._jvm.java.util.HashMap()
        for key, value in summary.items():
            properties.put(key, value)
        request = json.dumps({"removed": list(removed), "added": list(added)})
        with wrap_java_errors(OPERATION):
            prepared = self._java.prepare(request, properties)
        self._commit_prepared(prepared)
        self._java.markCommitted(request)

    def _commit_prepared(self, prepared: Any) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            prepared.commit()
        except Py4JJavaError as exc:
            error = classify(list(causes(exc.java_exception)), OPERATION)
            if isinstance(error, CommitConflict | CommitStateUnknown) or self._has_definitely_failed(exc):
                raise error from exc
            raise CommitStateUnknown(f"{error} It is unknown whether the commit succeeded.") from exc
        except BaseException as exc:
            raise CommitStateUnknown(
                f"{OPERATION}: interrupted before the catalog responded ({type(exc).__name__})."
            ) from exc

    def _has_definitely_failed(self, error: Any) -> bool:
        from py4j.java_gateway import is_instance_of

        gateway = self._spark.sparkContext._gateway
        return bool(is_instance_of(gateway, error.java_exception, CLEANABLE_FAILURE))


def _live_file(row: dict[str, Any]) -> LiveFile:
    constants = {int(field_id): value for field_id, value in row.pop("constants", {}).items()}
    return LiveFile(**_with_tuple(row, "deletes"), constants=constants)


def _with_tuple(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {**row, key: tuple(row.get(key, ()))}
