"""Digests files with Iceberg's generic reader in the driver, for tables with types that Spark does not support."""

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
    """Reads files sequentially in one thread, and does not check bounds."""

    def __init__(self, spark: SparkSession, table: Any, *, with_lineage: bool) -> None:
        self._java = new_instance(spark, __package__, "GenericDigest", table, with_lineage)

    def digest(self, tasks: Any) -> Digest:
        return _parse_digest(json.loads(self._java.digest(tasks)))

    def digests(self, tasks: Any, metrics: Sequence[FileMetrics]) -> list[FileDigest]:
        found = []
        for index, file_metrics in enumerate(metrics):
            digest = self.digest(tasks.subList(index, index + 1))
            wrong = _check_record_count(digest, file_metrics, str(tasks.get(index).file().location()))
            found.append(FileDigest(digest=digest, wrong_metrics=wrong))
        return found


def _check_record_count(digest: Digest, metrics: FileMetrics, path: str) -> tuple[ColumnDifference, ...]:
    if digest.rows == metrics.record_count:
        return ()
    counts = {"before": f"{digest.rows}", "after": f"{metrics.record_count}"}
    return (ColumnDifference(column=WHOLE_ROWS, measure="record_count", file=path, **counts),)


def _parse_digest(digest: dict[str, Any]) -> Digest:
    columns = {column["name"]: _parse_column(column) for column in digest["columns"]}
    nans = {column["name"]: column["nans"] for column in digest["columns"]}
    return Digest(rows=digest["rows"], columns={**columns, WHOLE_ROWS: _parse_column(digest)}, nans=nans)


def _parse_column(column: dict[str, Any]) -> ColumnDigest:
    hash_1, hash_2 = int(column["hash_1"], 16), int(column["hash_2"], 16)
    return ColumnDigest(hash_1=hash_1, hash_2=hash_2, nulls=column.get("nulls", 0))
