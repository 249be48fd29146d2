"""Prints the tables of the lake and the status of one table."""

from __future__ import annotations

from typing import Any

from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import ReadFailures
from icepack.cli.output.failures import show_failures
from icepack.cli.output.health import show_issues
from icepack.domain.ports.catalog import DiscoveredTables
from icepack.domain.serialization import to_json
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import format_size
from icepack.service.advice import Assessment

MAX_PARTITIONS_SHOWN = 15
HISTOGRAM_WIDTH = 40


def table_json(table: TableId) -> dict[str, Any]:
    return {"table": str(table), "catalog": table.catalog, "namespace": list(table.namespace), "name": table.name}


def show_tables(found: DiscoveredTables, output: str) -> None:
    if output == "json":
        tables = [table_json(table) for table in found.tables]
        print_json({"tables": tables, "silent_catalogs": dict(found.silent_catalogs)})
        return
    for table in found.tables:
        print_text(str(table))
    if not found.tables:
        print_text("No tables.")
    show_failures(ReadFailures(silent_catalogs=found.silent_catalogs))


def show_status(assessment: Assessment, output: str) -> None:
    status = assessment.status
    if output == "json":
        print_json({"table": str(status.table), "status": to_json(status), "health": to_json(assessment.health)})
        return
    facts = create_table("", "")
    facts.show_header = False
    for name, value in _facts(status):
        add_row(facts, name, value)
    console().print(facts)
    _show_histogram(status)
    _show_partitions(status)
    show_issues(assessment.health)


def _facts(status: TableStatus) -> list[tuple[str, str]]:
    deletes, snapshots, manifests = status.deletes, status.snapshots, status.manifests
    return [
        ("table", str(status.table)),
        ("location", status.location),
        ("format", f"v{status.format_version}, snapshot {status.snapshot_id or 'none'}"),
        ("partitioned by", status.partition_spec or "none"),
        ("sorted by", status.sort_order or "none"),
        (
            "data files",
            f"{status.data.count:,} with {status.data.records:,} rows, {format_size(status.data.bytes)} "
            f"(average {format_size(status.data.average_bytes)}, target {format_size(status.target_file_bytes)})",
        ),
        (
            "delete files",
            f"{deletes.position.files:,} position, {deletes.equality.files:,} equality, "
            f"{deletes.vectors.files:,} deletion vectors with {deletes.records:,} rows; "
            f"{deletes.dangling_files:,} dangling",
        ),
        (
            "snapshots",
            f"{snapshots.count:,}, branches {', '.join(snapshots.branches) or 'none'}, "
            f"tags {', '.join(snapshots.tags) or 'none'}",
        ),
        (
            "manifests",
            f"{manifests.count:,}, {format_size(manifests.bytes)}, {manifests.average_entries:.1f} files each",
        ),
        ("metadata", f"{format_size(status.metadata.file_bytes)}, {status.metadata.log_length:,} previous versions"),
        (
            "writes",
            f"{status.cadence.appends_per_hour:.1f} appends and "
            f"{status.cadence.row_changes_per_hour:.1f} row-level changes per hour, over the last day with writes",
        ),
        ("last compaction", str(status.last_compaction_at or "never")),
    ]


def _show_histogram(status: TableStatus) -> None:
    largest = max((bucket.count for bucket in status.data.histogram), default=0)
    if not largest:
        return
    chart = create_table("file size", "files", "", numbers=("files",))
    for bucket in status.data.histogram:
        label = f"< {format_size(bucket.below_bytes)}" if bucket.below_bytes else "larger"
        add_row(chart, label, f"{bucket.count:,}", "█" * -(-bucket.count * HISTOGRAM_WIDTH // largest))
    console().print(chart)


def _show_partitions(status: TableStatus) -> None:
    if not status.partition_spec:
        return
    worst = sorted(status.partitions, key=_badness, reverse=True)
    numbers = ("files", "small files", "delete files", "size", "rows")
    table = create_table("partition", *numbers, numbers=numbers)
    for partition in worst[:MAX_PARTITIONS_SHOWN]:
        add_row(
            table,
            partition.key.path or "(all)",
            f"{partition.data_files:,}",
            f"{partition.small_files:,}",
            f"{partition.delete_files:,}",
            format_size(partition.bytes),
            f"{partition.records:,}",
        )
    console().print(table)
    if len(worst) > MAX_PARTITIONS_SHOWN:
        print_text(f"… and {len(worst) - MAX_PARTITIONS_SHOWN:,} more partitions (--format json lists all).")


def _badness(partition: PartitionStatus) -> tuple[int, int]:
    return (partition.small_files + partition.delete_files, partition.data_files)
