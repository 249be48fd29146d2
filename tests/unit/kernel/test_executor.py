"""Task results: the outputs under the attempt's name, or why there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.executor import TaskAssignment, probe_versions, run_task
from icepack.kernel.input_file import OpenParquetFile
from icepack.kernel.storage import StorageError
from icepack.kernel.task import ATTEMPT_PLACEHOLDER, Task

from .harness import KernelHarness, column, schema_of

SCHEMA = schema_of(column(1, "id", "long"))


def assignment(harness: KernelHarness, rows: int = 3) -> TaskAssignment:
    item = harness.write(SCHEMA, {"id": list(range(rows))})
    output = (harness.folder / "deep" / f"out-{ATTEMPT_PLACEHOLDER}.parquet").as_uri()
    return TaskAssignment(4, Task(outputs=(output,), schema=SCHEMA, inputs=(item,)))


def outputs(harness: KernelHarness) -> list[str]:
    return sorted(path.name for path in harness.folder.rglob("out-*"))


def test_outputs_are_named_after_the_attempt(harness: KernelHarness) -> None:
    result = run_task(assignment(harness), {}, 2)
    assert result.written is not None
    assert (result.group, result.attempt, result.written.rows_out) == (4, 2, 3)
    assert [file.path.rsplit("/", 1)[-1] for file in result.written.files] == outputs(harness) == ["out-2.parquet"]


def test_a_missing_input_is_reported_and_not_raised(harness: KernelHarness) -> None:
    item = assignment(harness)
    Path(item.task.inputs[0].path.removeprefix("file://")).unlink()
    result = run_task(item, {}, 0)
    assert (result.written, result.unsupported) == (None, "")
    assert "in-0.parquet" in result.missing_file
    assert outputs(harness) == []


def test_unsupported_input_is_reported_and_leaves_no_file(harness: KernelHarness) -> None:
    item = assignment(harness)
    schema = schema_of(column(1, "id", "long"), column(2, "needed", "string", required=True))
    result = run_task(replace(item, task=replace(item.task, schema=schema)), {}, 0)
    assert "required column" in result.unsupported
    assert outputs(harness) == []


def test_an_unexpected_error_in_the_middle_is_reported_and_leaves_no_file(harness: KernelHarness) -> None:
    """Earlier inputs are written by the time one turns out not to be a Parquet file."""
    item = assignment(harness)
    bad = harness.folder / "bad.parquet"
    bad.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
    first = item.task.inputs[0]
    inputs = (*[first] * 5, replace(first, path=bad.as_uri(), bytes=108), first)
    result = run_task(replace(item, task=replace(item.task, inputs=inputs)), {}, 0)
    assert (result.written, result.unsupported, result.missing_file, result.corrupt_page) == (None, "", "", "")
    assert result.error.startswith("ArrowInvalid: ")
    assert outputs(harness) == []


@pytest.mark.parametrize(
    "error",
    [ValueError("a"), OSError("Corrupt snappy compressed data."), MemoryError("m"), pa.ArrowKeyError("k"), KeyError(1)],
)
def test_decoding_errors_are_reported(
    harness: KernelHarness, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(OpenParquetFile, "_read", _raising(error))
    result = run_task(assignment(harness), {}, 0)
    assert result.error == f"{type(error).__name__}: {error}"
    assert outputs(harness) == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(5, "Input/output error"),
        OSError("When reading key 'k': AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28"),
        PermissionError(13, "denied"),
        ConnectionResetError("reset"),
        StorageError("no answer"),
        KeyboardInterrupt(),
        SystemExit(),
    ],
)
def test_storage_errors_and_cancellation_are_raised(
    harness: KernelHarness, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(OpenParquetFile, "_read", _raising(error))
    with pytest.raises(type(error)):
        run_task(assignment(harness), {}, 0)
    assert outputs(harness) == []


def _raising(error: BaseException) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


def test_an_error_on_opening_is_a_storage_error(harness: KernelHarness) -> None:
    item = assignment(harness)
    folder = harness.folder / "folder.parquet"
    folder.mkdir()
    inputs = (replace(item.task.inputs[0], path=folder.as_uri()),)
    with pytest.raises(StorageError):
        run_task(replace(item, task=replace(item.task, inputs=inputs)), {}, 0)


def test_actual_rows_are_counted_and_not_the_records_of_the_metadata(harness: KernelHarness) -> None:
    item = assignment(harness, rows=3)
    result = run_task(replace(item, task=replace(item.task, inputs=(replace(item.task.inputs[0], records=5),))), {}, 0)
    assert result.written is not None
    assert result.written.rows_in == 3


def test_the_probe_reports_library_versions() -> None:
    (report,) = probe_versions(iter(()))
    assert report.startswith("pyarrow ")


def test_the_probe_reports_a_pyarrow_that_lacks_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def older(table: pa.Table, sink: Any, *, row_group_size: int, write_statistics: Any) -> None:
        raise AssertionError("not reached: it is called with more options")

    monkeypatch.setattr(pq, "write_table", older)
    (report,) = probe_versions(iter(()))
    assert report.startswith(
        f"missing: a PyArrow version that the kernel supports; {pa.__version__} fails with TypeError: "
    )
