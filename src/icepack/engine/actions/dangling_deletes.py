"""Removes delete files that apply to no data file any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icepack.domain.ports.engine import RunContext
from icepack.engine.java import iceberg_actions
from icepack.engine.java.errors import wrap_java_errors
from icepack.errors import CommitConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def has_delete_files(table: Any) -> bool:
    """Checks the delete files that remain after a native commit; True if the snapshot summary has no count."""
    table.refresh()
    count = table.currentSnapshot().summary().get("total-delete-files")
    return count is None or int(count) > 0


def remove_dangling_deletes(spark: SparkSession, table: Any, context: RunContext) -> None:
    """Removes delete files whose rows were all rewritten; otherwise every scan would still plan them."""
    table.refresh()
    iceberg_actions.add_stamp(iceberg_actions.get_actions(spark).removeDanglingDeleteFiles(table), context).execute()


def try_remove_dangling_deletes(spark: SparkSession, table: Any, context: RunContext) -> dict[str, str]:
    """Reports a conflict instead of raising it: it must not repeat the compaction, which is already committed."""
    try:
        with wrap_java_errors("Removing dangling deletes"):
            remove_dangling_deletes(spark, table, context)
    except CommitConflict as exc:
        return {"dangling_deletes": f"postponed to the next run: {exc}"}
    return {}
