"""What a task answers: its outputs under the attempt's name, or why there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.executor import Assignment, versions, work
from icepack.kernel.input_file import OpenFile
from icepack.kernel.storage import StorageFault
from icepack.kernel.task import ATTEMPT, Task

from .kernels import Bench, column, schema_of

SCHEMA = schema_of(column(1, "id", "long"))


def assignment(bench: Bench, rows: int = 3) -> Assignment:
    item = bench.write(SCHEMA, {"id": list(range(rows))})
    output = (bench.folder / "deep" / f"out-{ATTEMPT}.parquet").as_uri()
    return Assignment(4, Task(outputs=(output,), schema=SCHEMA, inputs=(item,)))


def outputs(bench: Bench) -> list[str]:
    return sorted(path.name for path in bench.folder.rglob("out-*"))


def test_outputs_carry_the_attempt(bench: Bench) -> None:
    answer = work(assignment(bench), {}, 2)
    assert answer.written is not None
    assert (answer.group, answer.attempt, answer.written.rows_out) == (4, 2, 3)
    assert [file.path.rsplit("/", 1)[-1] for file in answer.written.files] == outputs(bench) == ["out-2.parquet"]


def test_an_input_that_is_gone_is_told_and_not_thrown(bench: Bench) -> None:
    item = assignment(bench)
    Path(item.task.inputs[0].path.removeprefix("file://")).unlink()
    answer = work(item, {}, 0)
    assert (answer.written, answer.uncovered) == (None, "")
    assert "in-0.parquet" in answer.gone
    assert outputs(bench) == []


def test_what_is_not_covered_is_told_and_leaves_nothing(bench: Bench) -> None:
    item = assignment(bench)
    schema = schema_of(column(1, "id", "long"), column(2, "needed", "string", required=True))
    answer = work(replace(item, task=replace(item.task, schema=schema)), {}, 0)
    assert "required column" in answer.uncovered
    assert outputs(bench) == []


def test_an_unexpected_failure_in_the_middle_is_told_and_leaves_nothing(bench: Bench) -> None:
    """The first input is written by the time the second turns out to be no Parquet file."""
    item = assignment(bench)
    bad = bench.folder / "bad.parquet"
    bad.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
    first = item.task.inputs[0]
    inputs = (*[first] * 5, replace(first, path=bad.as_uri(), bytes=108), first)
    answer = work(replace(item, task=replace(item.task, inputs=inputs)), {}, 0)
    assert (answer.written, answer.uncovered, answer.gone, answer.damaged) == (None, "", "", "")
    assert answer.failed.startswith("ArrowInvalid: ")
    assert outputs(bench) == []


@pytest.mark.parametrize(
    "error",
    [ValueError("a"), OSError("Corrupt snappy compressed data."), MemoryError("m"), pa.ArrowKeyError("k"), KeyError(1)],
)
def test_errors_of_decoding_are_told(bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(OpenFile, "_read", _raising(error))
    answer = work(assignment(bench), {}, 0)
    assert answer.failed == f"{type(error).__name__}: {error}"
    assert outputs(bench) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "Input/output error"),
        OSError("When reading key 'k': AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28"),
        PermissionError(13, "denied"),
        ConnectionResetError("reset"),
        StorageFault("no answer"),
        KeyboardInterrupt(),
        SystemExit(),
    ],
)
def test_errors_of_the_storage_and_cancellation_are_raised(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(OpenFile, "_read", _raising(error))
    with pytest.raises(type(error)):
        work(assignment(bench), {}, 0)
    assert outputs(bench) == []


def _raising(error: BaseException) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


def test_an_error_of_opening_is_one_of_the_storage(bench: Bench) -> None:
    item = assignment(bench)
    folder = bench.folder / "folder.parquet"
    folder.mkdir()
    inputs = (replace(item.task.inputs[0], path=folder.as_uri()),)
    with pytest.raises(StorageFault):
        work(replace(item, task=replace(item.task, inputs=inputs)), {}, 0)


def test_rows_are_counted_as_they_are_and_not_as_they_were_said_to_be(bench: Bench) -> None:
    item = assignment(bench, rows=3)
    answer = work(replace(item, task=replace(item.task, inputs=(replace(item.task.inputs[0], records=5),))), {}, 0)
    assert answer.written is not None
    assert answer.written.rows_in == 3


def test_the_probe_tells_its_libraries() -> None:
    (said,) = versions(iter(()))
    assert said.startswith("pyarrow ")


def test_the_probe_tells_of_a_pyarrow_that_does_not_know_what_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(table: pa.Table, sink: Any, *, row_group_size: int, write_statistics: Any) -> None:
        raise AssertionError("not reached: it is asked for more than that")

    monkeypatch.setattr(pq, "write_table", older)
    (said,) = versions(iter(()))
    assert said.startswith(f"missing: a PyArrow that the kernel runs on; {pa.__version__} says TypeError: ")
