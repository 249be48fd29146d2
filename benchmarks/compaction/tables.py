"""Creates the tables of one catalog from existing files, and deletes rows from them with real writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.compaction.files import local_path
from benchmarks.compaction.session import NAMESPACE, table_id
from benchmarks.compaction.workloads import TARGET_FILE_BYTES, Deletes, Workload
from pyiceberg.catalog import Catalog
from pyiceberg.manifest import DataFile

from icepack.domain.table import TableId
from icepack.engine import sql
from icepack.engine.java.tables import load_table
from icepack.engine.session import SparkSessions
from icepack.engine.spark import SparkQueryEngine

PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.target-file-size-bytes": str(TARGET_FILE_BYTES),
    "write.delete.mode": "merge-on-read",
}
# Makes every Spark task read, and therefore write, one file.
ONE_FILE_EACH = "'read.split.target-size' = '1', 'read.split.open-file-cost' = '1'"
EQUALITY_COMMITS = 10
# Every fiftieth id is deleted by an equality delete.
EQUALITY_STEP = 50
# Every fifth row is deleted by a position delete or deletion vector.
DELETED_STEP = 5

# Stores a file under a name and returns its location.
Put = Callable[[str, bytes], str]


class Tables:
    def __init__(self, catalog: Catalog, sessions: SparkSessions, put: Put) -> None:
        self._catalog = catalog
        self._sessions = sessions
        self._put = put
        catalog.create_namespace(NAMESPACE)

    def id(self, name: str) -> TableId:
        return table_id(self._catalog.name, name)

    def create(self, name: str, like: pa.Schema, files: Sequence[DataFile]) -> None:
        table = self._catalog.create_table((NAMESPACE, name), like, properties=PROPERTIES)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
            for file in files:
                snapshot.append_data_file(file)

    def rewrite_with_spark(self, name: str, like: pa.Schema, files: Sequence[DataFile]) -> tuple[DataFile, ...]:
        """Rewrites the files with Spark, as many and with the same rows, and deletes the original files."""
        raw, made = f"raw_{name}", f"made_{name}"
        self.create(raw, like, files)
        self.create(made, like, ())
        source, target = (sql.table_name(self.id(table)) for table in (raw, made))
        self._query(f"ALTER TABLE {source} SET TBLPROPERTIES ({ONE_FILE_EACH})")
        self._query(f"INSERT INTO {target} SELECT * FROM {source}")
        for file in files:
            local_path(file.file_path).unlink()
        table = self._catalog.load_table((NAMESPACE, made))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        entries = [
            entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)
        ]
        return tuple(sorted((entry.data_file for entry in entries), key=lambda file: file.file_path))

    def copy(self, name: str, as_name: str) -> TableId:
        """Registers another table with the same metadata and files."""
        location = self._catalog.load_table((NAMESPACE, name)).metadata_location
        self._catalog.register_table((NAMESPACE, as_name), location)
        return self.id(as_name)

    def data_files(self, table: TableId) -> dict[str, int]:
        """Returns the size of each data file by path."""
        rows = self._query(f"SELECT file_path, file_size_in_bytes FROM {sql.metadata_table(table, 'data_files')}")
        return {row["file_path"]: row["file_size_in_bytes"] for row in rows}

    def delete_files(self, table: TableId) -> int:
        (row,) = self._query(f"SELECT count(*) AS count FROM {sql.metadata_table(table, 'delete_files')}")
        return int(row["count"])

    def delete_from(self, name: str, workload: Workload, rows: int) -> None:
        """Deletes rows as the workload defines; `rows` is the number of rows in the table."""
        table = self.id(name)
        match workload.deletes:
            case Deletes.POSITION:
                self._delete_rows(table)
            case Deletes.VECTOR:
                self._query(f"ALTER TABLE {sql.table_name(table)} SET TBLPROPERTIES ('format-version' = '3')")
                self._delete_rows(table)
            case Deletes.EQUALITY:
                self._delete_values(table, rows)
            case Deletes.NONE:
                pass

    def _query(self, statement: str) -> Sequence[Any]:
        return SparkQueryEngine(self._sessions).execute(statement)

    def _delete_rows(self, table: TableId) -> None:
        self._query(f"DELETE FROM {sql.table_name(table)} WHERE id % {DELETED_STEP} = 0")

    def _delete_values(self, table: TableId, rows: int) -> None:
        """Deletes in several commits, as a stream of upserts does; Spark itself cannot write equality deletes."""
        java_table = load_table(self._sessions.spark, table)
        share = rows // EQUALITY_COMMITS
        for number in range(EQUALITY_COMMITS):
            ids = range(number * share, (number + 1) * share, EQUALITY_STEP)
            self._commit_equality_delete(java_table, f"{table.name}-delete-{number}.parquet", ids)

    def _commit_equality_delete(self, table: Any, name: str, ids: range) -> None:
        field_id = int(table.schema().findField("id").fieldId())
        content = _column_of_ids(field_id, ids)
        context = self._sessions.spark.sparkContext
        field_ids = context._gateway.new_array(context._jvm.int, 1)
        field_ids[0] = field_id
        builder = context._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        builder.ofEqualityDeletes(field_ids).withPath(self._put(name, content)).withFormat("parquet")
        builder.withFileSizeInBytes(len(content)).withRecordCount(len(ids))
        table.newRowDelta().addDeletes(builder.build()).commit()


def _column_of_ids(field_id: int, ids: range) -> bytes:
    column = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
    sink = BytesIO()
    pq.write_table(pa.table([pa.array(ids)], schema=pa.schema([column])), sink, compression="zstd")
    return sink.getvalue()
