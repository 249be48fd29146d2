"""Runs SQL and maintenance actions in a PySpark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from icepack.domain.actions import (
    Action,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteManifests,
    RewritePositionDeletes,
)
from icepack.domain.ports.engine import EngineResult, QueryEngine, RunContext
from icepack.domain.table import TableId
from icepack.domain.verification import Mismatch, ValueComparison
from icepack.engine import sql
from icepack.engine.actions.compact import compact
from icepack.engine.actions.expire_snapshots import expire_snapshots
from icepack.engine.actions.manifests import rewrite_manifests
from icepack.engine.actions.orphan_files import remove_orphan_files
from icepack.engine.actions.position_deletes import rewrite_position_deletes
from icepack.engine.actions.statistics import compute_stats
from icepack.engine.java.errors import wrap_java_errors
from icepack.engine.java.tables import activate_session, load_table, roll_back
from icepack.engine.native.repeat import repeat_check
from icepack.engine.session import SparkSessions
from icepack.engine.verification.snapshots import compare_snapshots
from icepack.errors import Cancelled, CommitConflict

__all__ = ["QueryEngine", "SparkQueryEngine", "SparkSessionEngine"]


class SparkQueryEngine:
    """Runs SQL in a PySpark session.

    Code that runs SQL text depends on the QueryEngine protocol, so that a connection to a Spark Thrift Server or Kyuubi
    can take the place of the session.
    """

    def __init__(self, sessions: SparkSessions) -> None:
        self._sessions = sessions

    def execute(self, sql: str) -> Sequence[Mapping[str, Any]]:
        return [row.asDict() for row in self._sessions.spark.sql(sql).collect()]


class SparkSessionEngine:
    """Runs maintenance actions in a PySpark session with any master.

    Actions use Iceberg's Java API instead of SQL procedures, because only the API can add properties to the summary of
    the snapshots that it commits.
    """

    can_stamp = True

    def __init__(self, sessions: SparkSessions, catalog_names: Mapping[str, str] | None = None) -> None:
        self._sessions = sessions
        self._queries: QueryEngine = SparkQueryEngine(sessions)
        self._catalog_names = catalog_names or {}

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        return self._sessions.run_monitored(lambda: self._run(table, action, context), context)

    def count_rows(self, table: TableId, snapshot_id: int) -> int:
        with wrap_java_errors(f"Counting the rows of {table}"):
            return int(self._queries.execute(sql.count_rows_at(self._to_spark_name(table), snapshot_id))[0]["rows"])

    def compare_values(
        self, table: TableId, snapshot_id: int, against_id: int, *, all_files: bool = False
    ) -> ValueComparison:
        with wrap_java_errors(f"Comparing snapshots {snapshot_id} and {against_id} of {table}"):
            spark = activate_session(self._sessions.spark)
            loaded = load_table(spark, self._to_spark_name(table))
            return compare_snapshots(spark, loaded, snapshot_id, against_id, all_files=all_files)

    def repeat_check(self, table: TableId, mismatch: Mismatch) -> ValueComparison:
        with wrap_java_errors(f"Repeating a value check on {table}"):
            spark = activate_session(self._sessions.spark)
            return repeat_check(spark, load_table(spark, self._to_spark_name(table)), mismatch)

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        try:
            with wrap_java_errors(f"Rolling back snapshot {snapshot_id} of {table}"):
                spark = self._sessions.spark
                return roll_back(spark, load_table(spark, self._to_spark_name(table)), snapshot_id, parent_id)
        except CommitConflict:
            return False

    def close(self) -> None:
        self._sessions.close()

    def _to_spark_name(self, table: TableId) -> TableId:
        """Replaces the catalog's name if Spark does not allow it and the catalog is registered under another one."""
        return replace(table, catalog=self._catalog_names.get(table.catalog, table.catalog))

    def _run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        spark_table = self._to_spark_name(table)
        with wrap_java_errors(f"{action.kind} on {spark_table}"):
            spark = activate_session(self._sessions.spark)
            if context.cancel.is_set():
                raise Cancelled("Stopped before the action started.")
            loaded = load_table(spark, spark_table)
            context.check()
            match action:
                case Compact():
                    return compact(spark, table, loaded, action, context)
                case RewritePositionDeletes():
                    return rewrite_position_deletes(spark, loaded, action, context)
                case RewriteManifests():
                    return rewrite_manifests(spark, loaded, action, context)
                case ExpireSnapshots():
                    return expire_snapshots(spark, loaded, action, context)
                case RemoveOrphanFiles():
                    return remove_orphan_files(spark, self._queries, spark_table, loaded, action, context)
                case ComputeStats():
                    return compute_stats(spark, loaded, action)
                case _:
                    assert_never(action)
