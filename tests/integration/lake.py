"""A lake for tests: Spark writes, icepack maintains, and the rows of every branch and tag can be compared."""

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
from icepack.catalog.commits import SnapshotCommitReader
from icepack.catalog.discovery import PolarisDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.config.folders import EmbeddedLake
from icepack.domain.actions import Action
from icepack.domain.run import RunRecord, RunState
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.engine import sql
from icepack.engine.java.tables import load_table
from icepack.engine.session import SparkSessions
from icepack.engine.spark import SparkSessionEngine
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.retry import RetryPolicy
from icepack.service.runs.request import RunDependencies, RunRequest
from icepack.store.backend import select_history_store

NAMESPACE = "db"
# Properties with which updates and deletes write delete files instead of rewriting data files.
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}

Rows = list[str]


class Lake:
    """The embedded lake, with the components of icepack that maintain it."""

    def __init__(self, embedded: EmbeddedLake, sessions: SparkSessions) -> None:
        self.folder = embedded.folder
        self.catalogs = Catalogs({"lake": embedded.properties})
        self.catalogs.open("lake").create_namespace(NAMESPACE)
        self.sessions = sessions
        self.discovery = PolarisDiscovery(self.catalogs)
        self.reader = ManifestReader(MemoryManifestCache())
        self.inspector = PyIcebergInspector(self.catalogs, self.reader)
        self.engine = SparkSessionEngine(sessions)
        self.history = select_history_store(f"sqlite:///{embedded.folder / 'state.db'}")
        self.dependencies = RunDependencies(
            inspector=self.inspector,
            commit_reader=SnapshotCommitReader(self.catalogs, self.reader),
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

    def new_table_id(self, hint: str = "t") -> TableId:
        """Returns a name that no other test uses."""
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
        table = table or self.new_table_id(hint)
        all_properties = {
            "format-version": str(version),
            **(MERGE_ON_READ if version > 1 else {}),
            **(properties or {}),
        }
        property_list = ", ".join(f"'{key}' = '{value}'" for key, value in all_properties.items())
        self.sql(
            f"CREATE TABLE {sql.table_name(table)} ({columns}) USING iceberg "
            + (f"PARTITIONED BY ({partitioned_by}) " if partitioned_by else "")
            + (f"LOCATION '{location}' " if location else "")
            + f"TBLPROPERTIES ({property_list})"
        )
        return table

    def append(self, table: TableId, rows: str = "VALUES (1, 'a')", *, branch: str = "") -> None:
        """Commits one file, or one per partition."""
        target = sql.table_name(table) + (f".branch_{branch}" if branch else "")
        self.sql(f"INSERT INTO {target} SELECT /*+ COALESCE(1) */ * FROM ({rows})")

    def append_numbers(self, table: TableId, *, files: int, rows: int = 10, start: int = 0) -> None:
        """Appends consecutive ids to a table with the columns (id BIGINT, v STRING), in one commit per file."""
        for number in range(files):
            first = start + number * rows
            self.append(table, f"SELECT id, 'v' || id FROM range({first}, {first + rows})")

    def java_table(self, table: TableId) -> Any:
        return load_table(self.spark, table)

    @property
    def iceberg(self) -> Any:
        return self.spark.sparkContext._jvm.org.apache.iceberg

    def find_java_file(self, table: TableId, path: str) -> Any:
        """Returns Iceberg's Java object for a data file of the current snapshot."""
        tasks = self.java_table(table).newScan().planFiles().iterator()
        while tasks.hasNext():
            file = tasks.next().file()
            if file.location() == path:
                return file
        raise AssertionError(f"{table} has no file {path}")

    def remove_data_file(self, table: TableId, path: str) -> Any:
        """Removes a data file from the table, and returns it so that it can be added again."""
        file = self.find_java_file(table, path)
        self.java_table(table).newDelete().deleteFile(file).commit()
        return file

    def metadata(self, table: TableId, kind: str) -> list[dict[str, Any]]:
        """Reads a metadata table without `readable_metrics`, where Spark fails on the bounds of a uuid column."""
        found = self.sql(f"SELECT * FROM {sql.metadata_table(table, kind)}").drop("readable_metrics")
        return [row.asDict(True) for row in found.collect()]

    def status(self, table: TableId) -> TableStatus:
        return self.inspector.inspect(table)

    def rows_by_ref(self, table: TableId) -> dict[str, Rows]:
        """Returns the sorted rows of every branch and tag."""
        name = sql.table_name(table)
        refs = self.catalogs.load(table).metadata.refs
        return {ref: read_rows(self.sql(f"SELECT * FROM {name} VERSION AS OF '{ref}'")) for ref in refs}

    def main_rows(self, table: TableId) -> Rows:
        return read_rows(self.sql(f"SELECT * FROM {sql.table_name(table)}"))

    def run(
        self, table: TableId, action: Action, *, dependencies: RunDependencies | None = None, **request: Any
    ) -> RunRecord:
        """Runs an action, and checks that the history has the returned record."""
        record = MaintenanceRunner(dependencies or self.dependencies).run(
            RunRequest(table=table, action=action, **request)
        )
        (stored,) = self.history.runs(table=table, limit=1)
        assert stored.job_id == record.job_id
        assert stored.state is record.state
        return record

    def summaries(self, record: RunRecord) -> list[dict[str, str]]:
        """Returns the summaries of the snapshots that a run committed."""
        found = {row["snapshot_id"]: row["summary"] for row in self.metadata(record.table, "snapshots")}
        return [found[snapshot_id] for snapshot_id in record.commits]

    def current_snapshot_id(self, table: TableId) -> int:
        return int(self.java_table(table).currentSnapshot().snapshotId())

    def table_folder(self, table: TableId) -> Path:
        return to_local_path(self.java_table(table).location())

    def with_dependencies(self, **changes: Any) -> RunDependencies:
        return replace(self.dependencies, **changes)


def create_small_table(lake: Lake, **options: Any) -> TableId:
    """Creates a table with two files of three rows."""
    table = lake.create(**options)
    lake.append_numbers(table, files=2, rows=3)
    return table


def assert_refused(record: RunRecord, message: str) -> None:
    assert record.state is RunState.REFUSED, record.message
    assert message in record.message


def read_rows(frame: DataFrame) -> Rows:
    """Returns the sorted rows as text; variants are converted to JSON, because their objects have no equality."""
    variants = {field.name for field in frame.schema.fields if field.dataType.typeName() == "variant"}
    columns = [
        to_json(frame[quote_name(name)]).alias(name) if name in variants else frame[quote_name(name)]
        for name in frame.columns
    ]
    return sorted(repr(tuple(row)) for row in frame.select(*columns).collect())


def quote_name(column: str) -> str:
    return sql.quote_identifier(column)


def to_local_path(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def list_files(folder: Path) -> set[Path]:
    """Lists the files below a folder, without the checksum files of Hadoop's local file system."""
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def set_age(path: Path, days: float) -> None:
    modified_at = time.time() - days * 86400
    os.utime(path, (modified_at, modified_at))


def create_orphan_file(folder: Path, name: str | None = None, *, days: float = 10, size: int = 100) -> Path:
    """Creates a file that no metadata references, as a crashed writer leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or f"orphan-{uuid4()}.parquet")
    path.write_bytes(b"x" * size)
    set_age(path, days)
    return path


def commit_equality_delete(
    lake: Lake, table: TableId, columns: Sequence[str], values: Sequence[tuple[Any, ...]], partition: str = ""
) -> str:
    """Commits an equality delete file, as a streaming writer does; Spark itself does not write them."""
    java_table = lake.java_table(table)
    fields = [java_table.schema().findField(column) for column in columns]
    arrow_types = {"long": pa.int64(), "string": pa.string(), "int": pa.int32(), "date": pa.date32()}
    schema = pa.schema(
        pa.field(column, arrow_types[field.type().toString()], metadata={"PARQUET:field_id": str(field.fieldId())})
        for column, field in zip(columns, fields, strict=True)
    )
    path = lake.table_folder(table) / "data" / f"eq-{uuid4()}.parquet"
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


class OccupiedTaskSlots:
    """Occupies all task slots of Spark until `release`, so that no other job can finish."""

    def __init__(self, lake: Lake, folder: Path, slots: int = 2) -> None:
        self._lake = lake
        self._folder = folder
        self._slots = slots
        self._thread = threading.Thread(target=self._occupy, daemon=True)

    def __enter__(self) -> OccupiedTaskSlots:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        wait_until(lambda: len(list(self._folder.glob("occupied-*"))) == self._slots)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def waiting_jobs(self) -> list[int]:
        """Ids of the Spark jobs that wait for a slot."""
        return sorted(self._lake.spark.sparkContext.statusTracker().getActiveJobsIds())[1:]

    @property
    def is_occupied(self) -> bool:
        return self._thread.is_alive()

    def release(self) -> None:
        (self._folder / "release").touch()
        self._thread.join()

    def _occupy(self) -> None:
        folder = str(self._folder)

        def occupy(slot: int) -> None:
            Path(folder, f"occupied-{slot}").touch()
            while not Path(folder, "release").exists():
                time.sleep(0.05)

        self._lake.spark.sparkContext.parallelize(range(self._slots), self._slots).foreach(occupy)


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"condition not met within {seconds} s"
        time.sleep(0.02)
