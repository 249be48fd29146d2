"""Compacts data files: with the native rewrite where it supports the table, otherwise with Spark's procedure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from icepack.domain.actions import Compact, Layout, PartitionSelection, RewriteEngine
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.table import TableId
from icepack.engine.actions.column_names import check_unquoted_names
from icepack.engine.actions.dangling_deletes import has_delete_files, try_remove_dangling_deletes
from icepack.engine.actions.options import compaction_options, parse_sort_column
from icepack.engine.java import iceberg_actions
from icepack.engine.java.expressions import JavaExpressions
from icepack.engine.native.compaction import NativeCompaction
from icepack.engine.native.outcome import CompactionOutcome, build_details
from icepack.errors import CommitConflict, InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, table_id: TableId, table: Any, action: Compact, context: RunContext) -> EngineResult:
    """Runs the native rewrite, and Spark's procedure for the groups that it does not support or if it was requested."""
    check_sort_columns(table.schema(), action)
    if table.currentSnapshot() is None:
        return EngineResult()
    if action.engine is RewriteEngine.SPARK or context.plan is None:
        return rewrite_data_files(spark, table, action, context)
    plan = context.plan
    if not plan.groups:
        return EngineResult()
    table.refresh()
    compaction = NativeCompaction(spark, table_id, table, action, context, plan)
    outcome = compaction.run()
    context.report_proof(compaction.proof())
    details: dict[str, Any] = build_details(outcome, plan)
    failed = len(outcome.damaged)
    remaining = _remaining_action(action, outcome, plan)
    if remaining is not None:
        context.check()
        context.reports_progress.clear()
        table.refresh()
        result = rewrite_data_files(spark, table, remaining, context)
        details |= result.details
        failed += result.failed_groups
    elif action.delete_file_threshold is not None and has_delete_files(table) and not context.cancel.is_set():
        details |= try_remove_dangling_deletes(spark, table, context)
    if outcome.invalidated:
        raise CommitConflict(
            f"Another writer changed the files of {len(outcome.invalidated)} groups during the rewrite."
        )
    return EngineResult(failed_groups=failed, details=details, value_proof=compaction.proof())


def check_sort_columns(schema: Any, action: Compact) -> None:
    """Rejects unknown columns; also called when there is nothing to rewrite, so that typing errors are found early."""
    if action.layout in (Layout.ZORDER, Layout.HILBERT) and not action.columns:
        raise InvalidOption(f"The layout {action.layout} needs columns.", "Pass them with --columns a,b.")
    if action.layout is Layout.BINPACK:
        return
    is_sort = action.layout is Layout.SORT
    for name in [parse_sort_column(text).name if is_sort else text for text in action.columns]:
        # For the curve layouts Spark resolves the columns, and it ignores case.
        if schema.findField(name) is None and (is_sort or schema.caseInsensitiveFindField(name) is None):
            known = ", ".join(str(field.name()) for field in schema.columns())
            raise InvalidOption(f"Cannot sort by '{name}': the table has no such column.", f"Columns: {known}.")


def _remaining_action(action: Compact, outcome: CompactionOutcome, plan: CompactionPlan) -> Compact | None:
    """The action for Spark's procedure: the partitions that were not rewritten, or all if none was rewritten.

    The procedure rewrites whole partitions. Partitions with a damaged file are excluded, because Spark could read the
    damaged page as valid values.
    """
    damaged = {plan.groups[number].partition for number in outcome.damaged}
    remaining = {
        group.partition: group.values
        for group in map(plan.groups.__getitem__, outcome.fallbacks)
        if group.partition not in damaged
    }
    if not remaining:
        return None
    if not outcome.native and not damaged:
        return action
    return replace(action, partitions=tuple(PartitionSelection(*item) for item in sorted(remaining.items())))


def rewrite_data_files(spark: SparkSession, table: Any, action: Compact, context: RunContext) -> EngineResult:
    java_action = _set_layout(spark, table, iceberg_actions.get_actions(spark).rewriteDataFiles(table), action)
    iceberg_actions.set_options(java_action, compaction_options(action))
    expressions = JavaExpressions(spark.sparkContext._jvm, table.schema())
    row_filter = expressions.filter(context.where) if context.where is not None else None
    row_filter = expressions.and_optional(row_filter, expressions.partitions(action.partitions))
    if row_filter is not None:
        java_action.filter(row_filter)
    result = iceberg_actions.add_stamp(java_action, context).execute()
    notes = {}
    if action.delete_file_threshold is not None and not context.cancel.is_set():
        notes = try_remove_dangling_deletes(spark, table, context)
    return EngineResult(
        failed_groups=int(result.rewriteFailures().size()),
        details={
            **notes,
            "rewritten_data_files": int(result.rewrittenDataFilesCount()),
            "added_data_files": int(result.addedDataFilesCount()),
            "failed_data_files": int(result.failedDataFilesCount()),
        },
    )


def _set_layout(spark: SparkSession, table: Any, java_action: Any, action: Compact) -> Any:
    match action.layout:
        case Layout.BINPACK:
            return java_action.binPack()
        case Layout.SORT:
            return java_action.sort(_sort_order(spark, table, action.columns)) if action.columns else java_action.sort()
        case Layout.ZORDER:
            return java_action.zOrder(_column_array(spark, table, action))
        case Layout.HILBERT:
            return java_action.hilbert(_column_array(spark, table, action))
        case _:
            assert_never(action.layout)


def _column_array(spark: SparkSession, table: Any, action: Compact) -> Any:
    check_unquoted_names(table.schema(), action.columns, f"use the layout {action.layout} with the column")
    return iceberg_actions.to_string_array(spark, action.columns)


def _sort_order(spark: SparkSession, table: Any, columns: tuple[str, ...]) -> Any:
    iceberg = spark.sparkContext._jvm.org.apache.iceberg
    builder = iceberg.SortOrder.builderFor(table.schema())
    for column in map(parse_sort_column, columns):
        nulls = iceberg.NullOrder.NULLS_FIRST if column.nulls_first else iceberg.NullOrder.NULLS_LAST
        (builder.desc if column.descending else builder.asc)(column.name, nulls)
    return builder.build()
