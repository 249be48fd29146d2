"""Removes orphan files: lists candidates, runs the safety checks, reloads the metadata, and only then deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from icepack.domain.actions import ORPHAN_AGE_FLOOR, RemoveOrphanFiles
from icepack.domain.locations import is_inside, list_table_locations, locations_overlap, normalize_location
from icepack.domain.ports.engine import EngineResult, QueryEngine, RunContext
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.engine import sql
from icepack.engine.actions.file_deletion import (
    check_deletion_allowed,
    create_path_collector,
    delete_files,
    drain_paths,
    filter_unreferenced,
)
from icepack.engine.actions.options import check_options, parse_count, parse_flag, parse_mapping
from icepack.engine.java.iceberg_actions import get_actions
from icepack.errors import Cancelled, Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORPHAN_OPTIONS = frozenset(
    {"prefix-mismatch-mode", "prefix-listing", "equal-schemes", "equal-authorities", "max-concurrent-deletes"}
)
# Added to the current time in order to list files of any age.
_FAR_FUTURE = timedelta(days=3650)
# Schemes that Hadoop file systems can list.
_HADOOP_SCHEMES = ("file", "hdfs", "abfs", "wasb", "gs", "viewfs")


def remove_orphan_files(
    spark: SparkSession,
    queries: QueryEngine,
    table_id: TableId,
    table: Any,
    action: RemoveOrphanFiles,
    context: RunContext,
) -> EngineResult:
    properties = dict(table.properties())
    threads = parse_count(action.options, "max-concurrent-deletes")
    location = action.location or table.location()
    check_age(action.older_than, action.override_age_floor)
    check_deletion_allowed(properties)
    check_location(location, list_table_locations(table.location(), properties))
    check_other_tables(location, context.foreign_locations)
    candidates = _list_candidates(spark, table, location, action, context.now - action.older_than)
    if all(is_table_metadata(path) for path in candidates):
        return EngineResult()
    # Files of any age: a table that deletes its old metadata files may have only recent ones, beside old data.
    all_files = _list_candidates(spark, table, location, action, context.now + _FAR_FUTURE)
    check_nested_metadata(all_files, _metadata_folder(table, properties))
    orphans = [path for path in filter_unreferenced(spark, table, candidates) if not is_table_metadata(path)]
    if action.dry_run:
        return EngineResult(details={"would_delete": orphans[:1000], "would_delete_count": len(orphans)})
    if orphans:
        check_limits(len(orphans), _count_referenced(queries, table_id), action)
    if context.cancel.is_set():
        raise Cancelled("Stopped before any file was deleted.")
    context.confirm_ownership()
    return delete_files(spark, table, orphans, threads).to_engine_result()


def _list_candidates(
    spark: SparkSession, table: Any, location: str, action: RemoveOrphanFiles, before: datetime
) -> list[str]:
    """Lists the files modified before the given time that the metadata loaded at the start does not reference."""
    options = check_options(action.options, ORPHAN_OPTIONS, "remove_orphan_files")
    jvm = spark.sparkContext._jvm
    queue, consumer = create_path_collector(spark)
    java_action = get_actions(spark).deleteOrphanFiles(table)
    java_action.location(location).deleteWith(consumer)
    java_action.olderThan(int(before.timestamp() * 1000))
    java_action.usePrefixListing(parse_flag(options, "prefix-listing", _needs_prefix_listing(location)))
    if "prefix-mismatch-mode" in options:
        modes = jvm.org.apache.iceberg.actions.DeleteOrphanFiles.PrefixMismatchMode
        java_action.prefixMismatchMode(modes.fromString(options["prefix-mismatch-mode"]))
    schemes = dict(action.equal_schemes) | parse_mapping(options.get("equal-schemes", ""))
    authorities = dict(action.equal_authorities) | parse_mapping(options.get("equal-authorities", ""))
    if schemes:
        java_action.equalSchemes(schemes)
    if authorities:
        java_action.equalAuthorities(authorities)
    java_action.execute()
    return drain_paths(spark, queue)


def _needs_prefix_listing(location: str) -> bool:
    """Object stores accessed through Iceberg's own FileIO have no Hadoop file system that could list them."""
    return normalize_location(location).partition(":")[0] not in _HADOOP_SCHEMES


def _count_referenced(queries: QueryEngine, table: TableId) -> int:
    return int(queries.execute(sql.count_referenced_files(table))[0]["files"])


def _metadata_folder(table: Any, properties: Mapping[str, str]) -> str:
    return properties.get("write.metadata.path", f"{table.location().rstrip('/')}/metadata")


def is_table_metadata(path: str) -> bool:
    """Metadata files and version hints are never deleted, because a damaged table is restored from them."""
    name = path.rsplit("/", 1)[-1]
    return name.endswith((".metadata.json", ".metadata.json.gz")) or name == "version-hint.text"


def check_age(older_than: timedelta, is_overridden: bool) -> None:
    if older_than < ORPHAN_AGE_FLOOR and not is_overridden:
        raise Refused(
            f"Files younger than {format_duration(ORPHAN_AGE_FLOOR)} may belong to a write that is still in progress; "
            f"the requested age is {format_duration(older_than)}.",
            "Use 24h or more, or add --override-age-floor if nothing writes to the table.",
        )


def check_location(location: str, table_locations: Sequence[str]) -> None:
    if ".." in location.split("/") or not any(is_inside(location, own) for own in table_locations):
        raise Refused(f"{location} is not inside the table's location {table_locations[0]}.")


def check_other_tables(location: str, other_locations: Mapping[str, str]) -> None:
    """Refuses if the location overlaps with that of another table, whose files would look like orphans.

    The values of `other_locations` complete the sentence: "where table a.b.c is stored".
    """
    for other, clause in other_locations.items():
        if locations_overlap(location, other):
            raise Refused(
                f"{location} overlaps with {other}, where {clause}: its files would look like orphans.",
                "Restrict the search with --location to a folder that only this table uses.",
            )


def check_nested_metadata(candidates: Sequence[str], own_folder: str) -> None:
    """Refuses if another folder has a metadata file: it belongs to a table that no configured catalog lists."""
    for path in candidates:
        folder = path.rsplit("/", 1)[0]
        if is_table_metadata(path) and normalize_location(folder) != normalize_location(own_folder):
            raise Refused(
                f"{path} is the metadata of another table inside this table's location.",
                "Restrict the search with --location to a folder that only this table uses.",
            )


def check_limits(orphans: int, referenced: int, action: RemoveOrphanFiles) -> None:
    if orphans > action.max_files:
        raise Refused(
            f"{orphans:,} orphans were found, more than the limit of {action.max_files:,}.",
            "Review them with --dry-run, then raise max_orphan_files.",
        )
    share = orphans / max(orphans + referenced, 1)
    if share > action.max_share:
        raise Refused(
            f"{orphans:,} of {orphans + referenced:,} files ({share:.0%}) look like orphans, more than the limit of "
            f"{action.max_share:.0%}: the catalog may reference an old version of the table.",
            "Review them with --dry-run, then raise max_orphan_share.",
        )
