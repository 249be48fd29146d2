"""The tables: data files written with PyArrow, registered through PyIceberg, deleted from by real writers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.compaction.columns import SHAPES
from benchmarks.compaction.session import CORES, NAMESPACE, sessions, table_id
from benchmarks.compaction.workloads import TARGET_FILE_BYTES, WARM_FILES, DataSet, Deletes, Workload
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from icepack.config.folders import LAKE, EmbeddedLake
from icepack.engine import sql
from icepack.engine.session import SparkSessions
from icepack.engine.spark_actions import load_table

PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "3",
    "write.target-file-size-bytes": str(TARGET_FILE_BYTES),
    "write.delete.mode": "merge-on-read",
}
EQUALITY_COMMITS = 10
EQUALITY_STEP = 50
"""One id in so many is deleted by its value."""
DELETED_STEP = 5
"""One row in so many is deleted by its position."""


@dataclass(frozen=True, slots=True)
class Written:
    """A data set on disk."""

    sample: pa.Schema
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.record_count for file in self.files)


class BenchLake:
    """A lake of its own, with a Spark session that is never measured: it prepares and checks."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.catalog: Catalog = load_catalog(LAKE, **EmbeddedLake(folder).properties)
        self.catalog.create_namespace(NAMESPACE)
        self.sessions: SparkSessions = sessions(folder)

    def close(self) -> None:
        self.sessions.close()
        self.catalog.close()

    def write(self, data: DataSet) -> Written:
        make = SHAPES[data.shape]
        sample = make(0, 1).schema
        schema = self.catalog.create_table((NAMESPACE, f"schema_{data.name}"), sample).schema()
        folder = self.folder / "data" / data.name
        folder.mkdir(parents=True)
        with ThreadPoolExecutor(CORES) as pool:
            found = pool.map(
                lambda number: _write_file(schema, folder / f"{number:05d}.parquet", make(number, data.rows_per_file)),
                range(data.files),
            )
            return Written(sample, tuple(found))

    def build(self, workload: Workload, data: Written) -> None:
        """The table, and a small one of the same columns to warm an engine up with."""
        self._create(f"warm_{workload.key}", data.sample, data.files[:WARM_FILES])
        self._create(workload.key, data.sample, data.files)
        match workload.deletes:
            case Deletes.POSITION:
                self._delete_rows(workload.key)
            case Deletes.VECTOR:
                self._query(f"ALTER TABLE {name_of(workload.key)} SET TBLPROPERTIES ('format-version' = '3')")
                self._delete_rows(workload.key)
            case Deletes.EQUALITY:
                self._delete_values(workload.key, data.rows)
            case Deletes.NONE:
                pass

    def copy(self, name: str, as_name: str) -> None:
        """Another table with the same metadata and the same files."""
        location = self.catalog.load_table((NAMESPACE, name)).metadata_location
        self.catalog.register_table((NAMESPACE, as_name), location)

    def data_files(self, name: str) -> dict[str, int]:
        """Path and size of each."""
        rows = self._query(f"SELECT file_path, file_size_in_bytes FROM {name_of(name)}.data_files")
        return {row["file_path"]: row["file_size_in_bytes"] for row in rows}

    def delete_files(self, name: str) -> int:
        (row,) = self._query(f"SELECT count(*) AS count FROM {name_of(name)}.delete_files")
        return int(row["count"])

    def _query(self, statement: str) -> Sequence[Any]:
        return list(self.sessions.execute(statement))

    def _create(self, name: str, sample: pa.Schema, files: Sequence[DataFile]) -> None:
        table = self.catalog.create_table((NAMESPACE, name), sample, properties=PROPERTIES)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
            for file in files:
                snapshot.append_data_file(file)

    def _delete_rows(self, name: str) -> None:
        self._query(f"DELETE FROM {name_of(name)} WHERE id % {DELETED_STEP} = 0")

    def _delete_values(self, name: str, rows: int) -> None:
        """In several commits, as a stream of upserts leaves them; Spark itself writes no such deletes."""
        table = load_table(self.sessions.spark, table_id(name))
        share = rows // EQUALITY_COMMITS
        for number in range(EQUALITY_COMMITS):
            ids = range(number * share, (number + 1) * share, EQUALITY_STEP)
            self._commit_equality_delete(table, self.folder / "data" / f"{name}-delete-{number}.parquet", ids)

    def _commit_equality_delete(self, table: Any, path: Path, ids: range) -> None:
        field_id = int(table.schema().findField("id").fieldId())
        column = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
        pq.write_table(pa.table([pa.array(ids)], schema=pa.schema([column])), path, compression="zstd")
        context = self.sessions.spark.sparkContext
        field_ids = context._gateway.new_array(context._jvm.int, 1)
        field_ids[0] = field_id
        builder = context._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        builder.ofEqualityDeletes(field_ids).withPath(path.as_uri()).withFormat("parquet")
        builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(ids))
        table.newRowDelta().addDeletes(builder.build()).commit()


def name_of(name: str) -> str:
    return sql.table_name(table_id(name))


def _write_file(schema: Schema, path: Path, rows: pa.Table) -> DataFile:
    with pq.ParquetWriter(
        path,
        schema_to_pyarrow(schema),
        compression="zstd",
        compression_level=3,
        store_decimal_as_integer=True,
        store_schema=False,
    ) as writer:
        writer.write_table(rows.cast(writer.schema))
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=writer.writer.metadata,
        stats_columns=compute_statistics_plan(schema, {}),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path.as_uri(),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=path.stat().st_size,
        sort_order_id=None,
        spec_id=0,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
