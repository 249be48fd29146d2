"""Health sync of 2,000 tables: first all of them, then after 10 have changed. Only metadata is written.

The goal is that the second sync costs less than 5 % of the first. Run it with `make bench`.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import insert

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import PolarisDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import FileManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.clock import utc_now
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.table import TableId
from icepack.domain.units import MIB
from icepack.service.advice import PolicyResolver
from icepack.service.health_sync import SyncReport, TableCacheSyncWorker
from icepack.service.service import CompactionService
from icepack.store.backend import Stores, open_stores

TABLES = 2_000
CHANGED = 10
COMMITS = 5
FILES_PER_COMMIT = 8
ROUNDS = 5
GOAL = 0.05


@dataclass(frozen=True)
class Lake:
    catalogs: Catalogs
    discovery: PolarisDiscovery
    service: CompactionService
    stores: Stores

    def sync(self, *, full: bool = False) -> SyncReport:
        return TableCacheSyncWorker(
            catalogs=self.discovery,
            advisor=self.service,
            cache=self.stores.cache,
            status_history=self.stores.history,
            history=self.stores.history,
            owner="bench",
            clock=utc_now,
        ).run_once(full=full)


def build(root: Path) -> Lake:
    catalogs = Catalogs({"lake": {"type": "sql", "uri": f"sqlite:///{root}/c.db", "warehouse": f"file://{root}/w"}})
    stores = open_stores(f"sqlite:///{root}/state.db")
    reader = ManifestReader(FileManifestCache(root / "cache" / "manifests.db"))
    discovery = PolarisDiscovery(catalogs)
    runner: Any = None
    service = CompactionService(
        discovery=discovery,
        inspector=PyIcebergInspector(catalogs, reader),
        history=stores.history,
        runner=runner,
        policies=PolicyResolver(base=Policy(), rules=()),
        model=CostModel(),
    )
    clone(catalogs.open("lake"), first_table(catalogs), root)
    return Lake(catalogs, discovery, service, stores)


def first_table(catalogs: Catalogs) -> Any:
    """Creates a table whose manifests list files that are never opened."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField, StringType

    catalog = catalogs.open("lake")
    catalog.create_namespace("bench")
    catalog.create_table("bench.t0000", Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))
    for _ in range(COMMITS):
        append(catalogs, 0)
    return catalogs.load(table_id(0))


def table_id(number: int) -> TableId:
    return TableId("lake", ("bench",), f"t{number:04}")


def append(catalogs: Catalogs, number: int) -> None:
    loaded = catalogs.load(table_id(number))
    with loaded.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        for _ in range(FILES_PER_COMMIT):
            snapshot.append_data_file(data_file(loaded))


def data_file(loaded: Any) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{loaded.location()}/data/{uuid4()}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=10_000,
        file_size_in_bytes=MIB,
        column_sizes={1: 1000, 2: 1000},
        value_counts={1: 10_000, 2: 10_000},
        null_value_counts={1: 0, 2: 0},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        key_metadata=None,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=0,
        spec_id=0,
    )


def clone(catalog: Any, model: Any, root: Path) -> None:
    """Creates the other tables, with their own metadata files and the manifests of the first table.

    All of them read these manifests from the cache, which makes the full sync cheaper than a real one.
    """
    from pyiceberg.catalog.sql import IcebergTables

    text = Path(model.metadata_location.removeprefix("file://")).read_text(encoding="utf-8")
    rows = []
    for number in range(1, TABLES):
        name = table_id(number).name
        folder = root / "w" / "bench" / name
        file = folder / "metadata" / "00001.metadata.json"
        file.parent.mkdir(parents=True)
        own = re.sub(r'"location": ?"[^"]*"', f'"location":"file://{folder}"', text, count=1)
        file.write_text(own.replace(str(model.metadata.table_uuid), str(uuid4())), encoding="utf-8")
        rows.append(
            {
                "catalog_name": "lake",
                "table_namespace": "bench",
                "table_name": name,
                "metadata_location": f"file://{file}",
                "iceberg_type": "TABLE",
            }
        )
    with catalog.engine.begin() as connection:
        connection.execute(insert(IcebergTables), rows)


def measure(work: Callable[[], SyncReport], refreshed: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    report = work()
    spent = time.perf_counter() - wall, time.process_time() - cpu
    assert report.refreshed == refreshed and not report.unreadable, report
    return spent


def after_changes(lake: Lake, first: int) -> tuple[float, float]:
    for number in range(first, first + CHANGED):
        append(lake.catalogs, number)
    return measure(lake.sync, CHANGED)


def median(times: list[tuple[float, float]]) -> tuple[float, float]:
    return sorted(times)[len(times) // 2]


def report(name: str, spent: tuple[float, float], more: str = "") -> None:
    print(f"{name:<58} {spent[0]:8.3f} s wall {spent[1]:8.3f} s CPU  {more}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = build(Path(folder))
        print(f"{TABLES:,} tables of {COMMITS * FILES_PER_COMMIT} files; medians of {ROUNDS} for short runs")
        full = measure(lake.sync, TABLES)
        report("health sync of all tables", full)
        few = median([after_changes(lake, number * CHANGED) for number in range(1, ROUNDS + 1)])
        shares = few[0] / full[0], few[1] / full[1]
        missed = "" if max(shares) < GOAL else "  MISSED"
        comparison = f"{shares[0]:.1%} of wall, {shares[1]:.1%} of CPU (goal < {GOAL:.0%}){missed}"
        report(f"health sync after {CHANGED} tables changed", few, comparison)
        report("health sync after none changed", median([measure(lake.sync, 0) for _ in range(ROUNDS)]))
        lake.stores.close()


if __name__ == "__main__":
    main()
