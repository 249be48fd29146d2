"""Digests of files by Iceberg's generic reader, in the driver: for tables with types that Spark does not read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from icepack.domain.verification import ColumnDifference
from icepack.engine.java.classes import new_instance
from icepack.engine.verification.bounds import FileMetrics
from icepack.engine.verification.digest import WHOLE_ROWS, ColumnDigest, Digest
from icepack.engine.verification.spark_reader import FileDigest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class GenericReader:
    """Reads one file after another in one thread, and does not look at bounds."""

    def __init__(self, spark: SparkSession, table: Any, *, with_lineage: bool) -> None:
        self._java = new_instance(spark, __package__, "GenericDigest", table, with_lineage)

    def digest(self, tasks: Any) -> Digest:
        return _digest(json.loads(self._java.digest(tasks)))

    def digests(self, tasks: Any, metrics: Sequence[FileMetrics]) -> list[FileDigest]:
        found = []
        for at, claimed in enumerate(metrics):
            digest = self.digest(tasks.subList(at, at + 1))
            wrong = _wrong_count(digest, claimed, str(tasks.get(at).file().location()))
            found.append(FileDigest(digest=digest, wrong_metrics=wrong))
        return found


def _wrong_count(digest: Digest, claimed: FileMetrics, path: str) -> tuple[ColumnDifference, ...]:
    if digest.rows == claimed.record_count:
        return ()
    counts = {"before": f"{digest.rows}", "after": f"{claimed.record_count}"}
    return (ColumnDifference(column=WHOLE_ROWS, measure="record_count", file=path, **counts),)


def _digest(said: dict[str, Any]) -> Digest:
    columns = {column["name"]: _column(column) for column in said["columns"]}
    nans = {column["name"]: column["nans"] for column in said["columns"]}
    return Digest(rows=said["rows"], columns={**columns, WHOLE_ROWS: _column(said)}, nans=nans)


def _column(said: dict[str, Any]) -> ColumnDigest:
    return ColumnDigest(hash_1=int(said["hash_1"], 16), hash_2=int(said["hash_2"], 16), nulls=said.get("nulls", 0))
