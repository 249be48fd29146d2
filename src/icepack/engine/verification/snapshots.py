"""Compares two snapshots of a table by value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from icepack.domain.verification import ValueComparison
from icepack.engine.java.classes import new_instance
from icepack.engine.verification.digest import Digest, find_differences
from icepack.engine.verification.rewrite_check import DigestReader, create_digest_reader
from icepack.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compare_snapshots(
    spark: SparkSession, table: Any, snapshot_id: int, against_id: int, *, all_files: bool = False
) -> ValueComparison:
    """Files that both snapshots contain with the same deletes are read only with `all_files`."""
    for required_id in (snapshot_id, against_id):
        if table.snapshot(required_id) is None:
            raise UsageError(
                f"The table has no snapshot {required_id}.",
                "It may have expired: `icepack inspect` lists the snapshots.",
            )
    files = new_instance(spark, __package__, "SnapshotFiles", table, snapshot_id, against_id, all_files)
    schema = json.loads(spark.sparkContext._jvm.org.apache.iceberg.SchemaParser.toJson(table.schema()))
    with_lineage = int(table.operations().current().formatVersion()) >= 3 and bool(files.hasLineage())
    reader = create_digest_reader(spark, table, schema, with_lineage=with_lineage)
    before, after = _digest(reader, files.before()), _digest(reader, files.after())
    return ValueComparison(
        snapshot_id=snapshot_id,
        against_id=against_id,
        rows_before=before.rows,
        rows_after=after.rows,
        files_before=int(files.before().size()),
        files_after=int(files.after().size()),
        files_shared=int(files.shared()),
        differences=tuple(find_differences(before, after)),
    )


def _digest(reader: DigestReader, tasks: Any) -> Digest:
    return Digest() if tasks.isEmpty() else reader.digest(tasks)
