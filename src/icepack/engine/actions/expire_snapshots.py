"""Expires snapshots, and deletes the files that only they referenced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icepack.domain.actions import ExpireSnapshots
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.engine.actions.file_deletion import (
    check_deletion_allowed,
    create_path_collector,
    delete_files,
    drain_paths,
    filter_unreferenced,
)
from icepack.engine.actions.options import check_options, parse_count, parse_flag
from icepack.engine.java import iceberg_actions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPIRE_OPTIONS = frozenset({"max-concurrent-deletes", "stream-results"})


def expire_snapshots(spark: SparkSession, table: Any, action: ExpireSnapshots, context: RunContext) -> EngineResult:
    """Lets Iceberg commit the expiry, reloads the metadata, and deletes the files that it no longer references."""
    options = check_options(action.options, EXPIRE_OPTIONS, "expire_snapshots")
    threads = parse_count(options, "max-concurrent-deletes")
    check_deletion_allowed(dict(table.properties()))
    queue, consumer = create_path_collector(spark)
    java_action = iceberg_actions.get_actions(spark).expireSnapshots(table).deleteWith(consumer)
    java_action.expireOlderThan(int((context.now - action.older_than).timestamp() * 1000))
    java_action.retainLast(action.retain_last)
    for snapshot_id in action.snapshot_ids:
        java_action.expireSnapshotId(snapshot_id)
    if action.clean_expired_metadata:
        java_action.cleanExpiredMetadata(True)
    if parse_flag(options, "stream-results"):
        java_action.option("stream-results", "true")
    java_action.execute()
    unreferenced = filter_unreferenced(spark, table, drain_paths(spark, queue))
    context.confirm_ownership()
    return delete_files(spark, table, unreferenced, threads).to_engine_result()
