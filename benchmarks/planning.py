"""Planner and inspector on a table of 10,000 data files; only metadata is written.

Prints wall and CPU seconds, cold and warm. Run it with `make bench`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from icepack.catalog.catalog import Catalogs
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import FileManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.domain.actions import Strategy
from icepack.domain.plan.compaction import plan_compaction
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.select import SelectionRules
from icepack.domain.table import TableId
from icepack.domain.units import MIB

FILES = 10_000
FILES_PER_COMMIT = 100
DAYS = 50
ROUNDS = 5


def build(root: Path) -> tuple[Catalogs, TableId]:
    """Creates a table partitioned by day whose manifests list files that are never opened."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import DayTransform
    from pyiceberg.types import LongType, NestedField, StringType, TimestampType

    catalogs = Catalogs({"lake": {"type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}"}})
    catalog = catalogs.open("lake")
    catalog.create_namespace("bench")
    columns = [NestedField(position + 3, f"c{position}", StringType()) for position in range(12)]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType()), *columns)
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    catalog.create_table("bench.events", schema, partition_spec=spec)
    table = TableId("lake", ("bench",), "events")
    for _ in range(FILES // FILES_PER_COMMIT):
        append(catalogs, table, FILES_PER_COMMIT)
    return catalogs, table


def append(catalogs: Catalogs, table: TableId, count: int) -> None:
    loaded = catalogs.load(table)
    with loaded.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for number in range(count):
            snapshot.append_data_file(data_file(loaded, number))


def data_file(loaded: Any, number: int) -> Any:
    """Builds a file entry with statistics on fourteen columns, as a real writer would."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    ids = range(1, 15)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{loaded.location()}/data/{uuid4()}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(20_000 + number % DAYS),
        record_count=10_000,
        file_size_in_bytes=MIB + number,
        column_sizes=dict.fromkeys(ids, 1000),
        value_counts=dict.fromkeys(ids, 10000),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={},
        lower_bounds=dict.fromkeys(ids, b"aaaaaaaa"),
        upper_bounds=dict.fromkeys(ids, b"zzzzzzzz"),
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=0,
        spec_id=0,
    )


def measure(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def report(name: str, times: list[tuple[float, float]], goal: str = "") -> None:
    wall, cpu = sorted(times)[len(times) // 2]
    print(f"{name:<58} {wall:8.3f} s wall {cpu:8.3f} s CPU  {goal}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        catalogs, table = build(root)
        inspector = PyIcebergInspector(catalogs, ManifestReader(FileManifestCache(root / "cache" / "manifests.db")))
        print(f"{FILES:,} data files in {FILES // FILES_PER_COMMIT} manifests, {DAYS} partitions; medians of {ROUNDS}")
        report("inspect, empty cache", [measure(lambda: inspector.inspect(table))])
        report("inspect again, nothing changed", [measure(lambda: inspector.inspect(table)) for _ in range(ROUNDS)])
        after_append = []
        for _ in range(ROUNDS):
            append(catalogs, table, 10)
            after_append.append(measure(lambda: inspector.inspect(table)))
        report("inspect again after one append", after_append, "(goal < 0.2 s)")
        report("list the files to plan from", [measure(lambda: inspector.files(table)) for _ in range(ROUNDS)])
        listing = inspector.files(table)
        rules = SelectionRules(target_file_bytes=512 * MIB)

        def plan() -> None:
            plan_compaction(
                listing, strategy=Strategy.SMALL_FILES, rules=rules, model=CostModel(), now=datetime.now(UTC)
            )

        report("plan", [measure(plan) for _ in range(ROUNDS)])

        def list_and_plan() -> None:
            inspector.files(table)
            plan()

        report("list and plan, warm", [measure(list_and_plan) for _ in range(ROUNDS)], "(goal < 1 s)")


if __name__ == "__main__":
    main()
