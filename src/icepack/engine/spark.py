"""The actions on Iceberg's Java API, so that every snapshot carries its stamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from icepack import __version__
from icepack.domain.actions import (
    Action,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    Layout,
    PartitionSelection,
    RemoveOrphanFiles,
    RewriteEngine,
    RewriteManifests,
    RewritePositionDeletes,
)
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.table import TableId
from icepack.domain.verification import Mismatch, ValueComparison
from icepack.engine import sql
from icepack.engine.actions.column_names import check_sayable, sayable_statistics_columns
from icepack.engine.actions.file_deletion import collector, delete, drain, unreferenced
from icepack.engine.actions.options import at_least_one, compaction_options, flag, sort_column, take_known
from icepack.engine.actions.orphan_files import check_collection_allowed, remove_orphan_files
from icepack.engine.java.errors import java_faults
from icepack.engine.java.expressions import JavaExpressions
from icepack.engine.native.compaction import NativeCompaction, Outcome, report
from icepack.engine.native.repeat import repeat_check
from icepack.engine.session import SparkSessions
from icepack.engine.verification.snapshots import compare_snapshots
from icepack.errors import Cancelled, CommitConflict, InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPIRE_OPTIONS = frozenset({"max-concurrent-deletes", "stream-results"})
MANIFEST_OPTIONS = frozenset({"use-caching", "staging-location", "sort-by"})


class SparkSessionEngine:
    """Runs actions in a PySpark session, whatever its master."""

    can_stamp = True

    def __init__(self, sessions: SparkSessions, catalog_names: Mapping[str, str] | None = None) -> None:
        self._sessions = sessions
        self._catalog_names = catalog_names or {}

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        return self._sessions.watch(lambda: self._run(table, action, context), context)

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        with java_faults(f"Counting the rows of {table}"):
            return int(self._sessions.execute(sql.count_at(self._as_spark_says(table), snapshot_id))[0]["rows"])

    def compare_values(
        self, table: TableId, snapshot_id: int, against_id: int, *, all_files: bool = False
    ) -> ValueComparison:
        with java_faults(f"Comparing snapshots {snapshot_id} and {against_id} of {table}"):
            spark = activated(self._sessions.spark)
            loaded = load_table(spark, self._as_spark_says(table))
            return compare_snapshots(spark, loaded, snapshot_id, against_id, all_files=all_files)

    def repeat_check(self, table: TableId, mismatch: Mismatch) -> ValueComparison:
        with java_faults(f"Repeating a value check on {table}"):
            spark = activated(self._sessions.spark)
            return repeat_check(spark, load_table(spark, self._as_spark_says(table)), mismatch)

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        try:
            with java_faults(f"Taking back snapshot {snapshot_id} of {table}"):
                spark = self._sessions.spark
                return roll_back(spark, load_table(spark, self._as_spark_says(table)), snapshot_id, parent_id)
        except CommitConflict:
            return False

    def execute(self, statement: str) -> Any:
        return self._sessions.execute(statement)

    def close(self) -> None:
        self._sessions.close()

    def _as_spark_says(self, table: TableId) -> TableId:
        """A catalog whose name Spark cannot have goes by another there."""
        return replace(table, catalog=self._catalog_names.get(table.catalog, table.catalog))

    def _run(self, asked: TableId, action: Action, context: RunContext) -> EngineResult:
        table_id = self._as_spark_says(asked)
        with java_faults(f"{action.kind} on {table_id}"):
            spark = activated(self._sessions.spark)
            if context.cancel.is_set():
                raise Cancelled("Stopped before it began.")
            table = load_table(spark, table_id)
            context.check()
            match action:
                case Compact():
                    return compact(spark, asked, table, action, context)
                case RewritePositionDeletes():
                    return rewrite_position_deletes(spark, table, action, context)
                case RewriteManifests():
                    return rewrite_manifests(spark, table, action, context)
                case ExpireSnapshots():
                    return expire_snapshots(spark, table, action, context)
                case RemoveOrphanFiles():
                    return remove_orphan_files(spark, table_id, table, action, context)
                case ComputeStats():
                    return compute_stats(spark, table, action)
                case _:
                    assert_never(action)


def activated(spark: SparkSession) -> SparkSession:
    """The session, made the active one of this thread: Iceberg's writers take their catalogs from there."""
    spark.sparkContext._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    return spark


def load_table(spark: SparkSession, table: TableId) -> Any:
    return spark.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession, sql.table_name(table)
    )


def _actions(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)


def _stamp(java_action: Any, context: RunContext) -> Any:
    for key, value in context.stamp.properties(__version__).items():
        java_action.snapshotProperty(key, value)
    return java_action


def _with_options(java_action: Any, options: Mapping[str, str]) -> Any:
    for key, value in options.items():
        java_action.option(key, value)
    return java_action


def roll_back(spark: SparkSession, table: Any, snapshot_id: int, parent_id: int) -> bool:
    """Compare-and-swap through Iceberg's own commit, which knows every field of every format version."""
    operations = table.operations()
    base = operations.current()
    head = base.ref("main")
    if head is None or head.snapshotId() != snapshot_id:
        return False
    builder = spark.sparkContext._jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    operations.commit(base, builder.setBranchSnapshot(parent_id, "main").build())
    return True


def compact(spark: SparkSession, table_id: TableId, table: Any, action: Compact, context: RunContext) -> EngineResult:
    """By icepack's own kernel where that is exact; by Spark's procedure where it is not, or is asked for."""
    check_order(table.schema(), action)
    if table.currentSnapshot() is None:
        return EngineResult()
    if action.engine is RewriteEngine.SPARK or context.plan is None:
        return rewrite_by_spark(spark, table, action, context)
    plan = context.plan()
    if not plan.groups:
        return EngineResult()
    table.refresh()
    compaction = NativeCompaction(spark, table_id, table, action, context, plan)
    outcome = compaction.run()
    context.proven(compaction.proof())
    details: dict[str, Any] = report(outcome, plan)
    failed = len(outcome.damaged)
    left = _left_to_spark(action, outcome, plan)
    if left is not None:
        context.check()
        context.told.clear()
        table.refresh()
        rest = rewrite_by_spark(spark, table, left, context)
        details |= rest.details
        failed += rest.failed_groups
    elif action.delete_file_threshold is not None and _has_deletes(table) and not context.cancel.is_set():
        details |= _remove_dangling_if_unhindered(spark, table, context)
    if outcome.invalidated:
        raise CommitConflict(f"Another writer changed the files of {len(outcome.invalidated)} groups meanwhile.")
    return EngineResult(failed_groups=failed, details=details, value_proof=compaction.proof())


def check_order(schema: Any, action: Compact) -> None:
    """Also where there is nothing to rewrite today: who mistypes a column should learn it at once."""
    if action.layout in (Layout.ZORDER, Layout.HILBERT) and not action.columns:
        raise InvalidOption(f"{action.layout} needs columns.", "Name them with --columns a,b.")
    if action.layout is Layout.BINPACK:
        return
    is_sort = action.layout is Layout.SORT
    for name in [sort_column(text).name if is_sort else text for text in action.columns]:
        # Along a curve Spark finds the columns, and does not mind their case.
        if schema.findField(name) is None and (is_sort or schema.caseInsensitiveFindField(name) is None):
            known = ", ".join(str(field.name()) for field in schema.columns())
            raise InvalidOption(f"The table has no column '{name}' to order by.", f"It has: {known}.")


def _left_to_spark(action: Compact, outcome: Outcome, plan: CompactionPlan) -> Compact | None:
    """What Spark's procedure has to do: the partitions that were left, or everything where nothing is done yet.

    It takes whole partitions, so those with a damaged file are left alone: it would read the damage as values.
    """
    damaged = {plan.groups[number].partition for number in outcome.damaged}
    left = {
        group.partition: group.values
        for group in map(plan.groups.__getitem__, outcome.elsewhere)
        if group.partition not in damaged
    }
    if not left:
        return None
    if not outcome.native and not damaged:
        return action
    return replace(action, partitions=tuple(PartitionSelection(*item) for item in sorted(left.items())))


def rewrite_by_spark(spark: SparkSession, table: Any, action: Compact, context: RunContext) -> EngineResult:
    java_action = _with_layout(spark, table, _actions(spark).rewriteDataFiles(table), action)
    _with_options(java_action, compaction_options(action))
    expressions = JavaExpressions(spark.sparkContext._jvm, table.schema())
    wanted = expressions.filter(context.where) if context.where is not None else None
    wanted = expressions.both(wanted, expressions.partitions(action.partitions))
    if wanted is not None:
        java_action.filter(wanted)
    result = _stamp(java_action, context).execute()
    left = {}
    if action.delete_file_threshold is not None and not context.cancel.is_set():
        left = _remove_dangling_if_unhindered(spark, table, context)
    return EngineResult(
        failed_groups=int(result.rewriteFailures().size()),
        details={
            **left,
            "rewritten_data_files": int(result.rewrittenDataFilesCount()),
            "added_data_files": int(result.addedDataFilesCount()),
            "failed_data_files": int(result.failedDataFilesCount()),
        },
    )


def _with_layout(spark: SparkSession, table: Any, java_action: Any, action: Compact) -> Any:
    match action.layout:
        case Layout.BINPACK:
            return java_action.binPack()
        case Layout.SORT:
            return java_action.sort(_sort_order(spark, table, action.columns)) if action.columns else java_action.sort()
        case Layout.ZORDER:
            return java_action.zOrder(_names(spark, table, action))
        case Layout.HILBERT:
            return java_action.hilbert(_names(spark, table, action))
        case _:
            assert_never(action.layout)


def _names(spark: SparkSession, table: Any, action: Compact) -> Any:
    check_sayable(table.schema(), action.columns, f"{action.layout} by")
    return _string_array(spark, action.columns)


def _string_array(spark: SparkSession, values: tuple[str, ...]) -> Any:
    context = spark.sparkContext
    array = context._gateway.new_array(context._jvm.java.lang.String, len(values))
    for position, value in enumerate(values):
        array[position] = value
    return array


def _sort_order(spark: SparkSession, table: Any, columns: tuple[str, ...]) -> Any:
    iceberg = spark.sparkContext._jvm.org.apache.iceberg
    builder = iceberg.SortOrder.builderFor(table.schema())
    for column in map(sort_column, columns):
        nulls = iceberg.NullOrder.NULLS_FIRST if column.nulls_first else iceberg.NullOrder.NULLS_LAST
        (builder.desc if column.descending else builder.asc)(column.name, nulls)
    return builder.build()


def _has_deletes(table: Any) -> bool:
    """Of those that are left after a native commit, which has taken its own with it; without a word, perhaps."""
    table.refresh()
    said = table.currentSnapshot().summary().get("total-delete-files")
    return said is None or int(said) > 0


def _remove_dangling(spark: SparkSession, table: Any, context: RunContext) -> None:
    """Deletes whose rows were all rewritten would otherwise be planned with every read for ever."""
    table.refresh()
    _stamp(_actions(spark).removeDanglingDeleteFiles(table), context).execute()


def _remove_dangling_if_unhindered(spark: SparkSession, table: Any, context: RunContext) -> dict[str, str]:
    """A conflict here is no reason to do the compaction again, which is committed and may have been large."""
    try:
        with java_faults("Removing dangling deletes"):
            _remove_dangling(spark, table, context)
    except CommitConflict as exc:
        return {"dangling_deletes": f"left for the next run: {exc}"}
    return {}


def rewrite_position_deletes(
    spark: SparkSession, table: Any, action: RewritePositionDeletes, context: RunContext
) -> EngineResult:
    if table.currentSnapshot() is None:
        return EngineResult()
    java_action = _with_options(_actions(spark).rewritePositionDeletes(table), action.options)
    if context.where is not None:
        java_action.filter(JavaExpressions(spark.sparkContext._jvm, table.schema()).filter(context.where))
    result = _stamp(java_action, context).execute()
    if action.remove_dangling and not context.cancel.is_set():
        _remove_dangling(spark, table, context)
    return EngineResult(details={"rewritten_delete_files": int(result.rewrittenDeleteFilesCount())})


def rewrite_manifests(spark: SparkSession, table: Any, action: RewriteManifests, context: RunContext) -> EngineResult:
    options = take_known(action.options, MANIFEST_OPTIONS, "rewrite_manifests")
    rewritten = 0
    for spec_id in [action.spec_id] if action.spec_id is not None else _fragmented_specs(table):
        if context.cancel.is_set():
            raise Cancelled("Stopped before all manifests were rewritten.")
        table.refresh()
        java_action = _actions(spark).rewriteManifests(table).specId(spec_id)
        if "use-caching" in options:
            java_action.option("use-caching", options["use-caching"])
        if "staging-location" in options:
            java_action.stagingLocation(options["staging-location"])
        if "sort-by" in options:
            java_action.sortBy([name.strip() for name in options["sort-by"].split(",")])
        result = _stamp(java_action, context).execute()
        rewritten += sum(1 for _ in result.rewrittenManifests())
    return EngineResult(details={"rewritten_manifests": rewritten})


def _fragmented_specs(table: Any) -> list[int]:
    """Iceberg rewrites the manifests of one spec at a time; specs with a single manifest are left alone."""
    snapshot = table.currentSnapshot()
    if snapshot is None:
        return []
    counts: dict[int, int] = {}
    for manifest in snapshot.allManifests(table.io()):
        spec_id = int(manifest.partitionSpecId())
        counts[spec_id] = counts.get(spec_id, 0) + 1
    return sorted(spec_id for spec_id, count in counts.items() if count > 1)


def expire_snapshots(spark: SparkSession, table: Any, action: ExpireSnapshots, context: RunContext) -> EngineResult:
    """Iceberg commits the expiry; its files are deleted only after the metadata, read again, has let go of them."""
    options = take_known(action.options, EXPIRE_OPTIONS, "expire_snapshots")
    threads = at_least_one(options, "max-concurrent-deletes")
    check_collection_allowed(dict(table.properties()))
    queue, consumer = collector(spark)
    java_action = _actions(spark).expireSnapshots(table).deleteWith(consumer)
    java_action.expireOlderThan(int((context.now - action.older_than).timestamp() * 1000))
    java_action.retainLast(action.retain_last)
    for snapshot_id in action.snapshot_ids:
        java_action.expireSnapshotId(snapshot_id)
    if action.clean_expired_metadata:
        java_action.cleanExpiredMetadata(True)
    if flag(options, "stream-results"):
        java_action.option("stream-results", "true")
    java_action.execute()
    candidates = unreferenced(spark, table, drain(spark, queue))
    context.still_mine()
    deletion = delete(spark, table, candidates, threads)
    return EngineResult(
        files_deleted=deletion.files,
        bytes_deleted=deletion.bytes,
        failed_groups=len(deletion.failures),
        details={"failures": list(deletion.failures[:20])} if deletion.failures else {},
    )


def compute_stats(spark: SparkSession, table: Any, action: ComputeStats) -> EngineResult:
    take_known(action.options, frozenset(), "compute_stats")
    if table.currentSnapshot() is None:
        return EngineResult()
    check_sayable(table.schema(), action.columns, "count the values of")
    columns = action.columns or sayable_statistics_columns(table.schema())
    java_action = _actions(spark).computeTableStats(table)
    if columns:
        java_action.columns(_string_array(spark, columns))
    if action.snapshot_id is not None:
        java_action.snapshot(action.snapshot_id)
    if columns != ():
        java_action.execute()
    if action.partition_stats and _is_partitioned(spark, table):
        partition_action = _actions(spark).computePartitionStats(table)
        if action.snapshot_id is not None:
            partition_action.snapshot(action.snapshot_id)
        partition_action.execute()
    return EngineResult()


def _is_partitioned(spark: SparkSession, table: Any) -> bool:
    """In any of its specs; Iceberg fails on the others instead of writing nothing."""
    return not spark.sparkContext._jvm.org.apache.iceberg.Partitioning.partitionType(table).fields().isEmpty()
