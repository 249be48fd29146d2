"""Runs tasks inside Spark executors: names outputs after the attempt and passes the storage credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icepack.kernel.memory import configure_allocator
from icepack.kernel.task import ATTEMPT_PLACEHOLDER, RewriteResult, Task


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """A task and the number of the group that it belongs to."""

    group: int
    task: Task


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task wrote, or why it wrote nothing."""

    group: int
    attempt: int
    written: RewriteResult | None = None
    # What the kernel does not support. Spark rewrites the group.
    unsupported: str = ""
    # An input that another writer removed, commit and file, since the group was planned.
    missing_file: str = ""
    # An unexpected error, with its type. Spark can still rewrite the group.
    error: str = ""
    # A page of an input whose checksum does not match. Spark must not rewrite it either: it may not notice.
    corrupt_page: str = ""


class CountsAccumulatorParam:
    """Defines how a Spark accumulator adds up counts by key."""

    def zero(self, value: dict[int, int]) -> dict[int, int]:
        return {}

    def addInPlace(self, value: dict[int, int], more: dict[int, int]) -> dict[int, int]:  # noqa: N802
        for key, count in more.items():
            value[key] = value.get(key, 0) + count
        return value


def build_task_runner(
    storage: Any, files: Any, bytes_read: Any, groups: Any
) -> Callable[[Iterator[TaskAssignment]], Iterator[TaskResult]]:
    """Returns a function for `mapPartitions`.

    `storage` is a broadcast of the storage properties; the others are accumulators that report progress to the driver.
    """

    def run(assignments: Iterator[TaskAssignment]) -> Iterator[TaskResult]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for assignment in assignments:
            result = run_task(assignment, storage.value, context.attemptNumber() if context else 0)
            files.add(len(assignment.task.inputs))
            bytes_read.add(sum(file.bytes for file in assignment.task.inputs))
            if result.written is not None:
                groups.add({assignment.group: 1})
            yield result

    return run


def run_task(assignment: TaskAssignment, storage: Mapping[str, str], attempt: int) -> TaskResult:
    """Rewrites the task's inputs. Raises only errors of the storage, not of the files, so that Spark retries them."""
    task, group = assignment.task, assignment.group
    configure_allocator(task.memory_bytes)
    from icepack.kernel.arrow_schema import UnsupportedByKernel
    from icepack.kernel.parquet.checksums import CorruptPage
    from icepack.kernel.rewrite import rewrite
    from icepack.kernel.storage import Storage, is_storage_error

    outputs = tuple(output.replace(ATTEMPT_PLACEHOLDER, str(attempt)) for output in task.outputs)
    try:
        return TaskResult(group, attempt, written=rewrite(replace(task, outputs=outputs), Storage(storage)))
    except FileNotFoundError as exc:
        return TaskResult(group, attempt, missing_file=str(exc))
    except UnsupportedByKernel as exc:
        return TaskResult(group, attempt, unsupported=str(exc))
    except CorruptPage as exc:
        return TaskResult(group, attempt, corrupt_page=str(exc))
    except Exception as exc:
        if is_storage_error(exc):
            raise
        return TaskResult(group, attempt, error=f"{type(exc).__name__}: {exc}")


def probe_versions(_: Iterator[Any]) -> Iterator[str]:
    """Yields the versions of this executor's libraries, or "missing: " and what is missing."""
    try:
        import numpy
        import pyarrow

        yield _find_incompatibility() or f"pyarrow {pyarrow.__version__}, numpy {numpy.__version__}"
    except ImportError as exc:
        yield f"missing: {exc}"


def _find_incompatibility() -> str:
    """Tries this PyArrow and returns why the kernel cannot use it: older versions lack some options."""
    import pyarrow as pa

    try:
        from icepack.kernel.parquet.chunk_writer import encode_column
        from icepack.kernel.parquet.encoding import build_write_options
        from icepack.kernel.task import WriteProperties

        words = pa.ListArray.from_arrays([0, 1], pa.array(["word"]).dictionary_encode())
        field = pa.field("words", pa.list_(pa.string()))
        options = {**build_write_options(WriteProperties()), "use_dictionary": True}
        encode_column(pa.chunked_array([words]), pa.schema([field]), options)
    except Exception as exc:
        # After any error Spark does the rewrite. The message says what to fix so that the kernel can run here.
        error = f"{type(exc).__name__}: {exc}"
        return f"missing: a PyArrow version that the kernel supports; {pa.__version__} fails with {error}"
    return ""
