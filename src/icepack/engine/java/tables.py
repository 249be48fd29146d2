"""Loads tables through Iceberg's Java API and moves their main branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icepack.domain.table import TableId
from icepack.engine import sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def activate_session(spark: SparkSession) -> SparkSession:
    """Makes the session the active one of this thread, because Iceberg's writers get their catalogs from there."""
    spark.sparkContext._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    return spark


def load_table(spark: SparkSession, table: TableId) -> Any:
    return spark.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession, sql.table_name(table)
    )


def roll_back(spark: SparkSession, table: Any, snapshot_id: int, parent_id: int) -> bool:
    """Points main at the parent by compare-and-swap; returns False if the snapshot is no longer the head of main.

    It uses Iceberg's own commit, which keeps all fields of all format versions.
    """
    operations = table.operations()
    base = operations.current()
    head = base.ref("main")
    if head is None or head.snapshotId() != snapshot_id:
        return False
    builder = spark.sparkContext._jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    operations.commit(base, builder.setBranchSnapshot(parent_id, "main").build())
    return True
