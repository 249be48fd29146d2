"""Locations as the metadata spells them: local files, and S3 on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from icepack.kernel.arrow_schema import UnsupportedByKernel, to_arrow_schema
from icepack.kernel.executor import TaskAssignment, run_task
from icepack.kernel.storage import MAX_LOCAL_PREFETCH_BYTES, MAX_REMOTE_PREFETCH_BYTES, Storage, build_s3_arguments
from icepack.kernel.task import ATTEMPT_PLACEHOLDER, DeleteFile, InputFile, Task

from .deletes.test_deletion_vectors import blob
from .harness import column, schema_of
from .s3_server import s3_server

SCHEMA = schema_of(column(1, "id", "long"), column(2, "v", "string"))


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {}),
        ({"s3.endpoint": "http://host:9000/"}, {"endpoint_override": "host:9000", "scheme": "http"}),
        ({"s3.endpoint": "host"}, {"endpoint_override": "host", "scheme": "https"}),
        (
            {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c", "client.region": "d"},
            {"access_key": "a", "secret_key": "b", "session_token": "c", "region": "d"},
        ),
        ({"s3.path-style-access": "true"}, {"force_virtual_addressing": False}),
        ({"s3.path-style-access": "False"}, {"force_virtual_addressing": True}),
        (
            {"client.assume-role.arn": "arn", "client.assume-role.session-name": "me"},
            {"role_arn": "arn", "session_name": "me"},
        ),
        ({"client.credentials-provider": "x.AnonymousCredentialsProvider"}, {"anonymous": True}),
    ],
)
def test_iceberg_properties_become_pyarrow_arguments(properties: dict[str, str], expected: dict[str, Any]) -> None:
    assert build_s3_arguments(properties) == expected


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}"])
def test_local_files_in_every_spelling(tmp_path: Path, form: str) -> None:
    """Percent signs and number signs are part of the name."""
    path = tmp_path / "a=%2Fb" / "c#d e?f"
    storage = Storage({})
    with storage.create(form.format(path)) as sink:
        sink.write(b"content")
    assert path.read_bytes() == b"content"
    assert storage.open(form.format(path), 7).read() == b"content"
    assert storage.read(form.format(path), 3, 2) == b"te"
    for _ in range(2):
        storage.remove(form.format(path))
    assert not path.exists()


@pytest.mark.parametrize("location", ["hdfs://name/path", "abfss://c@a/path", "gs://b/k"])
def test_other_storage_is_refused(location: str) -> None:
    with pytest.raises(UnsupportedByKernel, match="storage"):
        Storage({}).open(location, 1)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[fs.FileSystem, dict[str, str]]]:
    with s3_server(tmp_path_factory.mktemp("s3")) as properties:
        system = fs.S3FileSystem(**build_s3_arguments(properties), allow_bucket_creation=True)
        system.create_dir("lake")
        yield system, properties


def put(system: fs.FileSystem, name: str, table: pa.Table, **more: Any) -> InputFile:
    with system.open_output_stream(f"lake/{name}") as sink:
        pq.write_table(table, sink, store_schema=False)
    size = system.get_file_info(f"lake/{name}").size
    return InputFile(path=f"s3://lake/{name}", bytes=size, records=table.num_rows, sequence_number=1, **more)


def rows(first: int, count: int) -> pa.Table:
    values = {"id": list(range(first, first + count)), "v": [f"v{id}" for id in range(first, first + count)]}
    return pa.table(values, schema=to_arrow_schema(SCHEMA))


def test_a_task_on_s3(bucket: tuple[fs.FileSystem, dict[str, str]]) -> None:
    """Inputs, deletes, a deletion vector inside a Puffin file, and the output, as the table spells their locations."""
    system, properties = bucket
    vector = blob({1}, optimized=False)
    with system.open_output_stream("lake/t/d.puffin") as sink:
        sink.write(b"PFA1" + vector)
    one = put(system, "t/p=a%2Fb/one.parquet", rows(0, 3))
    two = put(system, "t/two.parquet", rows(10, 3), deletion_vector=("s3a://lake/t/d.puffin", 4, len(vector)))
    deletes = put(system, "t/deletes.parquet", pa.table({"file_path": [one.path], "pos": pa.array([0], pa.int64())}))
    task = Task(
        outputs=(f"s3://lake/t/out-{ATTEMPT_PLACEHOLDER}.parquet",),
        schema=SCHEMA,
        inputs=(replace(one, position_deletes=(0,)), two),
        position_deletes=(DeleteFile(path=deletes.path, bytes=deletes.bytes),),
    )
    result = run_task(TaskAssignment(0, task), properties, 3)
    assert result.written is not None
    (file,) = result.written.files
    assert (file.path, file.rows) == ("s3://lake/t/out-3.parquet", 4)
    assert system.get_file_info("lake/t/out-3.parquet").size == file.bytes
    assert pq.read_table("lake/t/out-3.parquet", filesystem=system)["id"].to_pylist() == [1, 2, 10, 12]
    assert result.written.requests > 0


def test_a_file_that_is_too_large_to_prefetch(bucket: tuple[fs.FileSystem, dict[str, str]]) -> None:
    """It is read in ranges, and the output is uploaded in parts."""
    import numpy as np

    system, properties = bucket
    noise = np.random.default_rng(0).integers(0, 2**62, 1_600_000)
    table = pa.table({"id": noise, "v": pa.nulls(len(noise), pa.string())}, schema=to_arrow_schema(SCHEMA))
    item = put(system, "large.parquet", table)
    assert item.bytes > MAX_REMOTE_PREFETCH_BYTES
    task = Task(outputs=("s3://lake/large-out.parquet",), schema=SCHEMA, inputs=(item,))
    result = run_task(TaskAssignment(0, task), properties, 0)
    assert result.written is not None
    assert pq.read_table("lake/large-out.parquet", filesystem=system)["id"].to_numpy().sum() == noise.sum()


def test_only_small_local_files_are_loaded(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(bytes(MAX_LOCAL_PREFETCH_BYTES))
    large.write_bytes(bytes(MAX_LOCAL_PREFETCH_BYTES + 1))
    storage = Storage({})
    assert isinstance(storage.open(str(small), MAX_LOCAL_PREFETCH_BYTES), pa.BufferReader)
    with storage.open(f"file://{large}", MAX_LOCAL_PREFETCH_BYTES + 1) as file:
        assert not isinstance(file, pa.BufferReader)
        assert file.read_at(8, MAX_LOCAL_PREFETCH_BYTES - 7) == bytes(8)


def test_a_failed_task_on_s3_leaves_no_file(bucket: tuple[fs.FileSystem, dict[str, str]]) -> None:
    system, properties = bucket
    good = put(system, "f/good.parquet", rows(0, 3))
    gone = replace(good, path="s3://lake/f/gone.parquet")
    task = Task(outputs=("s3://lake/f/out.parquet",), schema=SCHEMA, inputs=(good, good, gone))
    result = run_task(TaskAssignment(0, task), properties, 0)
    assert "gone.parquet" in result.missing_file
    found = system.get_file_info(fs.FileSelector("lake/f", recursive=True))
    assert [info.path for info in found if info.is_file] == ["lake/f/good.parquet"]
