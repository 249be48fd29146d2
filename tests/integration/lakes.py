"""A real lake for tests: Spark writes, icepack maintains, and the rows of every branch and tag can be compared."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import to_json

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotLedger
from icepack.catalog.discovery import CatalogDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifests import ManifestReader, MemoryManifestCache
from icepack.config.folders import EmbeddedLake
from icepack.domain.actions import Action
from icepack.domain.run import RunRecord
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.engine import sql
from icepack.engine.session import SparkSessions
from icepack.engine.spark import SparkSessionEngine, load_table
from icepack.service.maintenance import MaintenanceRunner, RetryPolicy, RunRequest, RunTools
from icepack.store.backend import select_history_store

NAMESPACE = "db"
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
"""Updates and deletes then write delete files instead of data files."""

Rows = list[str]


class Lake:
    """The embedded lake with everything icepack needs to keep it, put together by hand."""

    def __init__(self, place: EmbeddedLake, sessions: SparkSessions) -> None:
        self.folder = place.folder
        self.catalogs = Catalogs({"lake": place.properties})
        self.catalogs.open("lake").create_namespace(NAMESPACE)
        self.sessions = sessions
        self.discovery = CatalogDiscovery(self.catalogs)
        self.reader = ManifestReader(MemoryManifestCache())
        self.inspector = PyIcebergInspector(self.catalogs, self.reader)
        self.engine = SparkSessionEngine(sessions)
        self.history = select_history_store(f"sqlite:///{place.folder / 'state.db'}")
        self.tools = RunTools(
            inspector=self.inspector,
            ledger=SnapshotLedger(self.catalogs, self.reader),
            engine=self.engine,
            history=self.history,
            locations=self.discovery.locations,
            retry=RetryPolicy(base_delay=timedelta(milliseconds=1)),
        )
        self._numbers = itertools.count(1)

    @property
    def spark(self) -> SparkSession:
        return self.sessions.spark

    def close(self) -> None:
        self.sessions.close()
        self.history.close()

    def sql(self, statement: str) -> DataFrame:
        return self.spark.sql(statement)

    def name(self, hint: str = "t") -> TableId:
        """A name that no other test uses."""
        return TableId("lake", (NAMESPACE,), f"{hint}_{next(self._numbers)}")

    def create(
        self,
        columns: str = "id BIGINT, v STRING",
        *,
        hint: str = "t",
        table: TableId | None = None,
        partitioned_by: str = "",
        location: str = "",
        version: int = 2,
        properties: Mapping[str, str] | None = None,
    ) -> TableId:
        table = table or self.name(hint)
        wanted = {"format-version": str(version), **(MERGE_ON_READ if version > 1 else {}), **(properties or {})}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in wanted.items())
        self.sql(
            f"CREATE TABLE {sql.table_name(table)} ({columns}) USING iceberg "
            + (f"PARTITIONED BY ({partitioned_by}) " if partitioned_by else "")
            + (f"LOCATION '{location}' " if location else "")
            + f"TBLPROPERTIES ({listed})"
        )
        return table

    def append(self, table: TableId, rows: str = "VALUES (1, 'a')", *, branch: str = "") -> None:
        """One commit with one file, unless the rows are spread over partitions."""
        target = sql.table_name(table) + (f".branch_{branch}" if branch else "")
        self.sql(f"INSERT INTO {target} SELECT /*+ COALESCE(1) */ * FROM ({rows})")

    def numbers(self, table: TableId, *, files: int, rows: int = 10, start: int = 0) -> None:
        """`files` appends of consecutive ids to a table of (id BIGINT, v STRING)."""
        for number in range(files):
            first = start + number * rows
            self.append(table, f"SELECT id, 'v' || id FROM range({first}, {first + rows})")

    def java(self, table: TableId) -> Any:
        return load_table(self.spark, table)

    @property
    def iceberg(self) -> Any:
        return self.spark.sparkContext._jvm.org.apache.iceberg

    def java_file(self, table: TableId, path: str) -> Any:
        """A data file of the current snapshot, as Iceberg's commits take it."""
        tasks = self.java(table).newScan().planFiles().iterator()
        while tasks.hasNext():
            file = tasks.next().file()
            if file.location() == path:
                return file
        raise AssertionError(f"{table} has no file {path}")

    def drop_file(self, table: TableId, path: str) -> Any:
        """Commits the removal of a data file from the table, and hands it over for adding it again."""
        file = self.java_file(table, path)
        self.java(table).newDelete().deleteFile(file).commit()
        return file

    def metadata(self, table: TableId, kind: str) -> list[dict[str, Any]]:
        """Without bounds as values: Spark fails to show those of a uuid."""
        found = self.sql(f"SELECT * FROM {sql.metadata_table(table, kind)}").drop("readable_metrics")
        return [row.asDict(True) for row in found.collect()]

    def status(self, table: TableId) -> TableStatus:
        return self.inspector.inspect(table)

    def rows(self, table: TableId) -> dict[str, Rows]:
        """The content of every branch and tag, in an order of its own."""
        name = sql.table_name(table)
        refs = self.catalogs.load(table).metadata.refs
        return {ref: content(self.sql(f"SELECT * FROM {name} VERSION AS OF '{ref}'")) for ref in refs}

    def main(self, table: TableId) -> Rows:
        return content(self.sql(f"SELECT * FROM {sql.table_name(table)}"))

    def run(self, table: TableId, action: Action, *, tools: RunTools | None = None, **request: Any) -> RunRecord:
        """As the service does it; what was recorded is what came back."""
        record = MaintenanceRunner(tools or self.tools).run(RunRequest(table=table, action=action, **request))
        (kept,) = self.history.runs(table=table, limit=1)
        assert kept.job_id == record.job_id
        assert kept.state is record.state
        return record

    def summaries(self, record: RunRecord) -> list[dict[str, str]]:
        """What the snapshots that a run committed say of themselves."""
        found = {row["snapshot_id"]: row["summary"] for row in self.metadata(record.table, "snapshots")}
        return [found[snapshot_id] for snapshot_id in record.commits]

    def head(self, table: TableId) -> int:
        return int(self.java(table).currentSnapshot().snapshotId())

    def place(self, table: TableId) -> Path:
        return local(self.java(table).location())

    def with_tools(self, **changes: Any) -> RunTools:
        return replace(self.tools, **changes)


def content(frame: DataFrame) -> Rows:
    """Every row as text; variants are compared as JSON, because their objects have no equality."""
    variants = {field.name for field in frame.schema.fields if field.dataType.typeName() == "variant"}
    shown = [
        to_json(frame[quoted(name)]).alias(name) if name in variants else frame[quoted(name)] for name in frame.columns
    ]
    return sorted(repr(tuple(row)) for row in frame.select(*shown).collect())


def quoted(column: str) -> str:
    return sql.identifier(column)


def local(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def files_below(folder: Path) -> set[Path]:
    """All but the checksums that Hadoop's local file system keeps beside every file."""
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def age(path: Path, days: float) -> None:
    moment = time.time() - days * 86400
    os.utime(path, (moment, moment))


def stray(folder: Path, name: str | None = None, *, days: float = 10, size: int = 100) -> Path:
    """A file that no metadata knows, as a crashed writer leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or f"stray-{uuid4()}.parquet")
    path.write_bytes(b"x" * size)
    age(path, days)
    return path


def equality_delete(
    lake: Lake, table: TableId, columns: Sequence[str], values: Sequence[tuple[Any, ...]], partition: str = ""
) -> str:
    """Commits an equality-delete file, as a streaming writer would; Spark itself never writes one."""
    java_table = lake.java(table)
    fields = [java_table.schema().findField(column) for column in columns]
    kinds = {"long": pa.int64(), "string": pa.string(), "int": pa.int32(), "date": pa.date32()}
    schema = pa.schema(
        pa.field(column, kinds[field.type().toString()], metadata={"PARQUET:field_id": str(field.fieldId())})
        for column, field in zip(columns, fields, strict=True)
    )
    path = lake.place(table) / "data" / f"eq-{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {column: [row[position] for row in values] for position, column in enumerate(columns)}
    pq.write_table(pa.table(body, schema=schema), path)
    ids = lake.spark.sparkContext._gateway.new_array(lake.spark.sparkContext._jvm.int, len(fields))
    for position, field in enumerate(fields):
        ids[position] = field.fieldId()
    builder = lake.iceberg.FileMetadata.deleteFileBuilder(java_table.spec()).ofEqualityDeletes(ids)
    builder.withPath(path.as_uri()).withFileSizeInBytes(path.stat().st_size).withRecordCount(len(values))
    builder.withFormat("parquet")
    if partition:
        builder.withPartitionPath(partition)
    java_table.newRowDelta().addDeletes(builder.build()).commit()
    return path.as_uri()


class Occupied:
    """All of Spark's task slots are taken until `release`: a job that was begun meanwhile cannot finish."""

    def __init__(self, lake: Lake, folder: Path, slots: int = 2) -> None:
        self._lake = lake
        self._folder = folder
        self._slots = slots
        self._thread = threading.Thread(target=self._hold, daemon=True)

    def __enter__(self) -> Occupied:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        wait_until(lambda: len(list(self._folder.glob("taken-*"))) == self._slots)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def others(self) -> list[int]:
        """Spark jobs that wait for a slot."""
        return sorted(self._lake.spark.sparkContext.statusTracker().getActiveJobsIds())[1:]

    @property
    def is_held(self) -> bool:
        return self._thread.is_alive()

    def release(self) -> None:
        (self._folder / "release").touch()
        self._thread.join()

    def _hold(self) -> None:
        folder = str(self._folder)

        def hold(slot: int) -> None:
            Path(folder, f"taken-{slot}").touch()
            while not Path(folder, "release").exists():
                time.sleep(0.05)

        self._lake.spark.sparkContext.parallelize(range(self._slots), self._slots).foreach(hold)


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
