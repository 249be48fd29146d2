"""Writes data files as a real writer does: with zstd, field ids and statistics for the manifests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.compaction.session import CORES
from benchmarks.compaction.workloads import DataSet
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DATA_FILE_TYPE, DEFAULT_READ_VERSION, DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record


def write_files(schema: Schema, folder: Path, data: DataSet) -> Iterator[DataFile]:
    folder.mkdir()

    def write(number: int) -> DataFile:
        return _write_file(schema, folder / f"{number:05d}.parquet", data, data.generate(number, data.rows_per_file))

    with ThreadPoolExecutor(CORES) as pool:
        yield from pool.map(write, range(data.files))


def local_path(location: str) -> Path:
    """Returns the path of `file:/a`, as Spark writes it, and of `file:///a`."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def relocate(file: DataFile, location: str) -> DataFile:
    """Returns the same file entry with another location."""
    names = [field.name for field in DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields]
    facts = {name: getattr(file, name) for name in names}
    return DataFile.from_args(**{**facts, "file_path": location, "spec_id": 0})


def _write_file(schema: Schema, path: Path, data: DataSet, rows: pa.Table) -> DataFile:
    with pq.ParquetWriter(
        path,
        schema_to_pyarrow(schema),
        compression="zstd",
        compression_level=3,
        store_decimal_as_integer=True,
        store_schema=False,
        write_page_index=data.has_page_index,
    ) as writer:
        writer.write_table(rows.cast(writer.schema), row_group_size=data.rows_per_group)
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
