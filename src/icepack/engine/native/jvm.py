"""The JVM's side of the native rewrite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from icepack.engine.java.classes import new_instance
from icepack.engine.java.errors import causes, classify, java_faults
from icepack.errors import CommitConflict, CommitStateUnknown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITTING = "Committing a native compaction"
CLEANABLE = "org.apache.iceberg.exceptions.CleanableFailure"
"""What Iceberg throws where a commit has surely not landed."""


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
    constants: Mapping[int, Any] = field(default_factory=dict)
    """Field id → the partition's value, in Iceberg's JSON, of the source columns of identity partition fields."""


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
        self.snapshot_id = snapshot_id
        self._java = new_instance(spark, __package__, "Rewrite", table, snapshot_id, "\0".join(paths))
        said = json.loads(self._java.describe())
        self.deletes = [LiveDelete(**_tupled(row, "equality_ids")) for row in said["deletes"]]
        self.files = {row["path"]: _live_file(row) for row in said["files"]}

    def input_tasks(self, paths: Sequence[str]) -> Any:
        """Iceberg's scan tasks of these files, with the deletes that apply to them."""
        return self._java.inputTasks("\0".join(paths))

    def output_tasks(self, added: Sequence[Mapping[str, Any]]) -> Any:
        """Scan tasks of files that are not committed yet."""
        return self._java.outputTasks(json.dumps({"added": list(added)}))

    def output_metrics(self, added: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What the manifest will say of each of these files, by path."""
        found: dict[str, Any] = json.loads(self._java.outputMetrics(json.dumps({"added": list(added)})))
        return found

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


def _live_file(row: dict[str, Any]) -> LiveFile:
    constants = {int(number): value for number, value in row.pop("constants", {}).items()}
    return LiveFile(**_tupled(row, "deletes"), constants=constants)


def _tupled(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {**row, key: tuple(row.get(key, ()))}
