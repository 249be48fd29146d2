"""Compacts position delete files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icepack.domain.actions import RewritePositionDeletes
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.engine.actions.dangling_deletes import remove_dangling_deletes
from icepack.engine.java import iceberg_actions
from icepack.engine.java.expressions import JavaExpressions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewrite_position_deletes(
    spark: SparkSession, table: Any, action: RewritePositionDeletes, context: RunContext
) -> EngineResult:
    if table.currentSnapshot() is None:
        return EngineResult()
    java_action = iceberg_actions.set_options(
        iceberg_actions.get_actions(spark).rewritePositionDeletes(table), action.options
    )
    if context.where is not None:
        java_action.filter(JavaExpressions(spark.sparkContext._jvm, table.schema()).filter(context.where))
    result = iceberg_actions.add_stamp(java_action, context).execute()
    if action.remove_dangling and not context.cancel.is_set():
        remove_dangling_deletes(spark, table, context)
    return EngineResult(details={"rewritten_delete_files": int(result.rewrittenDeleteFilesCount())})
