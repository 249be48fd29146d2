"""Places as the metadata spells them: files of this machine, and S3 on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from icepack.kernel.arrow_schema import Uncovered, arrow_schema
from icepack.kernel.executor import Assignment, work
from icepack.kernel.storage import FETCHED_BYTES, LOADED_BYTES, Storage, s3_arguments
from icepack.kernel.task import ATTEMPT, DeleteFile, Input, Task

from .kernels import column, schema_of
from .s3_server import s3_server
from .test_vectors import blob

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
def test_icebergs_names_for_pyarrow(properties: dict[str, str], expected: dict[str, Any]) -> None:
    assert s3_arguments(properties) == expected


@pytest.mark.parametrize("form", ["{0}", "file:{0}", "file://{0}"])
def test_this_machine_in_every_spelling(tmp_path: Path, form: str) -> None:
    """Names that look like escapes or fragments are names."""
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
    with pytest.raises(Uncovered, match="storage"):
        Storage({}).open(location, 1)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[fs.FileSystem, dict[str, str]]]:
    with s3_server(tmp_path_factory.mktemp("s3")) as properties:
        system = fs.S3FileSystem(**s3_arguments(properties), allow_bucket_creation=True)
        system.create_dir("lake")
        yield system, properties


def put(system: fs.FileSystem, name: str, table: pa.Table, **more: Any) -> Input:
    with system.open_output_stream(f"lake/{name}") as sink:
        pq.write_table(table, sink, store_schema=False)
    size = system.get_file_info(f"lake/{name}").size
    return Input(path=f"s3://lake/{name}", bytes=size, records=table.num_rows, sequence_number=1, **more)


def rows(first: int, count: int) -> pa.Table:
    values = {"id": list(range(first, first + count)), "v": [f"v{id}" for id in range(first, first + count)]}
    return pa.table(values, schema=arrow_schema(SCHEMA))


def test_a_task_on_s3(bucket: tuple[fs.FileSystem, dict[str, str]]) -> None:
    """Inputs, deletes, a vector in the middle of a file, and the output: all by the table's own spelling."""
    system, properties = bucket
    vector = blob({1}, optimized=False)
    with system.open_output_stream("lake/t/d.puffin") as sink:
        sink.write(b"PFA1" + vector)
    one = put(system, "t/p=a%2Fb/one.parquet", rows(0, 3))
    two = put(system, "t/two.parquet", rows(10, 3), vector=("s3a://lake/t/d.puffin", 4, len(vector)))
    deletes = put(system, "t/deletes.parquet", pa.table({"file_path": [one.path], "pos": pa.array([0], pa.int64())}))
    task = Task(
        outputs=(f"s3://lake/t/out-{ATTEMPT}.parquet",),
        schema=SCHEMA,
        inputs=(replace(one, position_deletes=(0,)), two),
        position_deletes=(DeleteFile(path=deletes.path, bytes=deletes.bytes),),
    )
    answer = work(Assignment(0, task), properties, 3)
    assert answer.written is not None
    (file,) = answer.written.files
    assert (file.path, file.rows) == ("s3://lake/t/out-3.parquet", 4)
    assert system.get_file_info("lake/t/out-3.parquet").size == file.bytes
    assert pq.read_table("lake/t/out-3.parquet", filesystem=system)["id"].to_pylist() == [1, 2, 10, 12]
    assert answer.written.requests > 0


def test_a_file_too_large_for_one_request(bucket: tuple[fs.FileSystem, dict[str, str]]) -> None:
    """It is read by ranges, and what is written goes up in parts."""
    import numpy as np

    system, properties = bucket
    noise = np.random.default_rng(0).integers(0, 2**62, 1_600_000)
    table = pa.table({"id": noise, "v": pa.nulls(len(noise), pa.string())}, schema=arrow_schema(SCHEMA))
    item = put(system, "large.parquet", table)
    assert item.bytes > FETCHED_BYTES
    task = Task(outputs=("s3://lake/large-out.parquet",), schema=SCHEMA, inputs=(item,))
    answer = work(Assignment(0, task), properties, 0)
    assert answer.written is not None
    assert pq.read_table("lake/large-out.parquet", filesystem=system)["id"].to_numpy().sum() == noise.sum()


def test_on_a_disk_only_small_files_are_loaded(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(bytes(LOADED_BYTES))
    large.write_bytes(bytes(LOADED_BYTES + 1))
    storage = Storage({})
    assert isinstance(storage.open(str(small), LOADED_BYTES), pa.BufferReader)
    with storage.open(f"file://{large}", LOADED_BYTES + 1) as file:
        assert not isinstance(file, pa.BufferReader)
        assert file.read_at(8, LOADED_BYTES - 7) == bytes(8)


def test_on_s3_too_a_failed_task_leaves_nothing(bucket: tuple[fs.FileSystem, dict[str, str]]) -> None:
    system, properties = bucket
    good = put(system, "f/good.parquet", rows(0, 3))
    gone = replace(good, path="s3://lake/f/gone.parquet")
    task = Task(outputs=("s3://lake/f/out.parquet",), schema=SCHEMA, inputs=(good, good, gone))
    answer = work(Assignment(0, task), properties, 0)
    assert "gone.parquet" in answer.gone
    found = system.get_file_info(fs.FileSelector("lake/f", recursive=True))
    assert [info.path for info in found if info.is_file] == ["lake/f/good.parquet"]
