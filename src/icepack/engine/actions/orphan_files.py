"""Orphan removal behind its guard rails: list, read the metadata again, check, and only then delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from icepack.domain.actions import ORPHAN_AGE_FLOOR, RemoveOrphanFiles
from icepack.domain.locations import is_inside, normalize_location, overlap, own_places
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.engine import sql
from icepack.engine.actions.file_deletion import collector, delete, drain, unreferenced
from icepack.engine.actions.options import at_least_one, flag, mapping, take_known
from icepack.errors import Cancelled, Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORPHAN_OPTIONS = frozenset(
    {"prefix-mismatch-mode", "prefix-listing", "equal-schemes", "equal-authorities", "max-concurrent-deletes"}
)
_FAR_AHEAD = timedelta(days=3650)
_HADOOP_LISTED = ("file", "hdfs", "abfs", "wasb", "gs", "viewfs")


def remove_orphan_files(
    spark: SparkSession, table_id: TableId, table: Any, action: RemoveOrphanFiles, context: RunContext
) -> EngineResult:
    properties = dict(table.properties())
    threads = at_least_one(action.options, "max-concurrent-deletes")
    location = action.location or table.location()
    check_age(action.older_than, action.override_age_floor)
    check_collection_allowed(properties)
    check_location(location, own_places(table.location(), properties))
    check_neighbours(location, context.foreign_locations)
    candidates = _list(spark, table, location, action, context.now - action.older_than)
    if all(is_table_metadata(path) for path in candidates):
        return EngineResult()
    # Of any age: a table that drops its old metadata files has only young ones, and old data.
    anything = _list(spark, table, location, action, context.now + _FAR_AHEAD)
    check_nested_metadata(anything, _metadata_folder(table, properties))
    orphans = [path for path in unreferenced(spark, table, candidates) if not is_table_metadata(path)]
    if action.dry_run:
        return EngineResult(details={"would_delete": orphans[:1000], "would_delete_count": len(orphans)})
    if orphans:
        check_caps(len(orphans), _referenced(spark, table_id), action)
    if context.cancel.is_set():
        raise Cancelled("Stopped before any file was deleted.")
    context.still_mine()
    deletion = delete(spark, table, orphans, threads)
    return EngineResult(
        files_deleted=deletion.files,
        bytes_deleted=deletion.bytes,
        failed_groups=len(deletion.failures),
        details={"failures": list(deletion.failures[:20])} if deletion.failures else {},
    )


def _list(spark: SparkSession, table: Any, location: str, action: RemoveOrphanFiles, before: datetime) -> list[str]:
    """Candidates only: files of before that moment that the metadata read at the start does not refer to."""
    options = take_known(action.options, ORPHAN_OPTIONS, "remove_orphan_files")
    jvm = spark.sparkContext._jvm
    queue, consumer = collector(spark)
    java_action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession).deleteOrphanFiles(table)
    java_action.location(location).deleteWith(consumer)
    java_action.olderThan(int(before.timestamp() * 1000))
    java_action.usePrefixListing(flag(options, "prefix-listing", _needs_prefix_listing(location)))
    if "prefix-mismatch-mode" in options:
        modes = jvm.org.apache.iceberg.actions.DeleteOrphanFiles.PrefixMismatchMode
        java_action.prefixMismatchMode(modes.fromString(options["prefix-mismatch-mode"]))
    schemes = dict(action.equal_schemes) | mapping(options.get("equal-schemes", ""))
    authorities = dict(action.equal_authorities) | mapping(options.get("equal-authorities", ""))
    if schemes:
        java_action.equalSchemes(schemes)
    if authorities:
        java_action.equalAuthorities(authorities)
    java_action.execute()
    return drain(spark, queue)


def _needs_prefix_listing(location: str) -> bool:
    """Object stores behind Iceberg's own FileIO have no Hadoop file system to list with."""
    return normalize_location(location).partition(":")[0] not in _HADOOP_LISTED


def _referenced(spark: SparkSession, table: TableId) -> int:
    return int(spark.sql(sql.count_referenced_files(table)).collect()[0]["files"])


def _metadata_folder(table: Any, properties: Mapping[str, str]) -> str:
    return properties.get("write.metadata.path", f"{table.location().rstrip('/')}/metadata")


def is_table_metadata(path: str) -> bool:
    """Metadata files and version hints are never deleted: they are what a repair would start from."""
    name = path.rsplit("/", 1)[-1]
    return name.endswith((".metadata.json", ".metadata.json.gz")) or name == "version-hint.text"


def check_age(older_than: timedelta, overridden: bool) -> None:
    if older_than < ORPHAN_AGE_FLOOR and not overridden:
        raise Refused(
            f"Files younger than {format_duration(ORPHAN_AGE_FLOOR)} may belong to a write that is still under way; "
            f"{format_duration(older_than)} was asked for.",
            "Ask for 24h or more, or add --override-age-floor if nothing writes to the table.",
        )


def check_collection_allowed(properties: Mapping[str, str]) -> None:
    if properties.get("gc.enabled", "true").lower() != "true":
        raise Refused(
            "The table sets gc.enabled to false: its files may belong to another table.",
            "Set gc.enabled to true first, if the table owns them.",
        )


def check_location(location: str, own: Sequence[str]) -> None:
    if ".." in location.split("/") or not any(is_inside(location, place) for place in own):
        raise Refused(f"{location} does not lie within the table's own location {own[0]}.")


def check_neighbours(location: str, foreign: Mapping[str, str]) -> None:
    for place, clause in foreign.items():
        if overlap(location, place):
            raise Refused(
                f"{location} overlaps with {place}, where {clause}: its files would look like orphans.",
                "Narrow the search with --location to a folder that only this table uses.",
            )


def check_nested_metadata(candidates: Sequence[str], own_folder: str) -> None:
    """A metadata file below another folder means that a table nobody listed lives there."""
    for path in candidates:
        folder = path.rsplit("/", 1)[0]
        if is_table_metadata(path) and normalize_location(folder) != normalize_location(own_folder):
            raise Refused(
                f"{path} is the metadata of another table inside this table's location.",
                "Narrow the search with --location to a folder that only this table uses.",
            )


def check_caps(orphans: int, referenced: int, action: RemoveOrphanFiles) -> None:
    if orphans > action.max_files:
        raise Refused(
            f"{orphans:,} orphans were found, more than the limit of {action.max_files:,}.",
            "Look at them with --dry-run, then raise max_orphan_files.",
        )
    share = orphans / max(orphans + referenced, 1)
    if share > action.max_share:
        raise Refused(
            f"{orphans:,} of {orphans + referenced:,} files ({share:.0%}) look like orphans, more than the limit of "
            f"{action.max_share:.0%}: the catalog may point at an old version of the table.",
            "Look at them with --dry-run, then raise max_orphan_share.",
        )
