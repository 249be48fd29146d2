"""All tables of a run: on disk for measuring time, and a few files of each in a bucket for counting requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from benchmarks.compaction.fake_s3 import NAME, Server, run_server
from benchmarks.compaction.files import local_path, relocate, write_files
from benchmarks.compaction.session import BUCKET, NAMESPACE, catalogs, sessions, write_endpoint
from benchmarks.compaction.tables import Tables
from benchmarks.compaction.workloads import REQUEST_FILES, WARM_FILES, DataSet, Workload
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import DataFile

from icepack.config.folders import LAKE


@dataclass(frozen=True, slots=True)
class Written:
    """A data set on disk."""

    like: pa.Schema
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in self.files)


class BenchLake:
    """The benchmark's lake, with a Spark session that prepares and verifies tables and is never measured."""

    def __init__(self, folder: Path, server: Server) -> None:
        write_endpoint(folder, server.endpoint)
        self.folder = folder
        self.requests = server.bucket.requests
        self._server = server
        self._catalog = _open_catalog(folder, LAKE)
        self.sessions = sessions(folder)
        self.local = Tables(self._catalog, self.sessions, self._write_local)
        self.bucket = Tables(_open_catalog(folder, BUCKET), self.sessions, self._upload)
        (folder / "data").mkdir()

    def write(self, data: DataSet) -> Written:
        like = data.generate(0, 1).schema
        schema = self._catalog.create_table((NAMESPACE, f"schema_{data.name}"), like).schema()
        files = tuple(write_files(schema, self.folder / "data" / data.name, data))
        return Written(like, self.local.rewrite_with_spark(data.name, like, files) if data.is_by_spark else files)

    def build(self, workload: Workload, data: Written) -> None:
        """Builds the measured table, a small one to warm up an engine, and one in the bucket."""
        self.local.create(f"warm_{workload.key}", data.like, data.files[:WARM_FILES])
        self.local.create(workload.key, data.like, data.files)
        self.local.delete_from(workload.key, workload, sum(file.record_count for file in data.files))
        few = [relocate(file, self._upload_copy(file)) for file in data.files[:REQUEST_FILES]]
        self.bucket.create(workload.key, data.like, few)
        self.bucket.delete_from(workload.key, workload, sum(file.record_count for file in few))

    def close(self) -> None:
        self.sessions.close()

    def _write_local(self, name: str, content: bytes) -> str:
        path = self.folder / "data" / name
        path.write_bytes(content)
        return path.as_uri()

    def _upload(self, name: str, content: bytes) -> str:
        self._server.bucket.put(f"{NAME}/data/{name}", content)
        return f"s3://{NAME}/data/{name}"

    def _upload_copy(self, file: DataFile) -> str:
        path = local_path(file.file_path)
        return self._upload(f"{path.parent.name}/{path.name}", path.read_bytes())


@contextmanager
def open_lake(folder: Path) -> Iterator[BenchLake]:
    with run_server() as server:
        lake = BenchLake(folder, server)
        try:
            yield lake
        finally:
            lake.close()


def _open_catalog(folder: Path, name: str) -> Catalog:
    return load_catalog(name, **catalogs(folder)[name])
