"""Computes table and partition statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icepack.domain.actions import ComputeStats
from icepack.domain.ports.engine import EngineResult
from icepack.engine.actions.column_names import check_unquoted_names, statistics_columns
from icepack.engine.actions.options import check_options
from icepack.engine.java import iceberg_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compute_stats(spark: SparkSession, table: Any, action: ComputeStats) -> EngineResult:
    check_options(action.options, frozenset(), "compute_stats")
    if table.currentSnapshot() is None:
        return EngineResult()
    check_unquoted_names(table.schema(), action.columns, "compute statistics of the column")
    columns = action.columns or statistics_columns(table.schema())
    java_action = iceberg_actions.get_actions(spark).computeTableStats(table)
    if columns:
        java_action.columns(iceberg_actions.to_string_array(spark, columns))
    if action.snapshot_id is not None:
        java_action.snapshot(action.snapshot_id)
    if columns != ():
        java_action.execute()
    if action.partition_stats and _is_partitioned(spark, table):
        partition_action = iceberg_actions.get_actions(spark).computePartitionStats(table)
        if action.snapshot_id is not None:
            partition_action.snapshot(action.snapshot_id)
        partition_action.execute()
    return EngineResult()


def _is_partitioned(spark: SparkSession, table: Any) -> bool:
    """Checks all partition specs; computing partition statistics fails for a table that was never partitioned."""
    return not spark.sparkContext._jvm.org.apache.iceberg.Partitioning.partitionType(table).fields().isEmpty()
