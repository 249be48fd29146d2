"""What runs inside a Spark task: the kernel, under the name of the attempt, with the storage's secrets at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icepack.kernel.memory import settle_allocator
from icepack.kernel.task import ATTEMPT, Task, Written


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task and the number of the group that it belongs to."""

    group: int
    task: Task


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one task: what was written, or why it was not."""

    group: int
    attempt: int
    written: Written | None = None
    uncovered: str = ""
    gone: str = ""
    """An input that another writer has removed, commit and file, since it was planned."""
    failed: str = ""
    """An unexpected error, with its type. The group can still be rewritten by Spark."""
    damaged: str = ""
    """A page of an input whose checksum is wrong. Spark must not rewrite it either: it may not notice."""


class Tally:
    """How an accumulator adds up what is counted by name."""

    def zero(self, value: dict[int, int]) -> dict[int, int]:
        return {}

    def addInPlace(self, value: dict[int, int], more: dict[int, int]) -> dict[int, int]:  # noqa: N802
        for name, count in more.items():
            value[name] = value.get(name, 0) + count
        return value


def runner(
    secrets: Any, files: Any, bytes_read: Any, groups: Any
) -> Callable[[Iterator[Assignment]], Iterator[Answer]]:
    """For `mapPartitions`: a broadcast with the storage's properties, and accumulators that tell the driver."""

    def run(items: Iterator[Assignment]) -> Iterator[Answer]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for item in items:
            answer = work(item, secrets.value, context.attemptNumber() if context else 0)
            files.add(len(item.task.inputs))
            bytes_read.add(sum(file.bytes for file in item.task.inputs))
            if answer.written is not None:
                groups.add({item.group: 1})
            yield answer

    return run


def work(item: Assignment, storage: Mapping[str, str], attempt: int) -> Answer:
    """Rewrites a task. Raises only what concerns the storage and not the files, so that Spark tries again."""
    settle_allocator(item.task.memory_bytes)
    from icepack.kernel.arrow_schema import Uncovered
    from icepack.kernel.parquet.errors import DamagedPage
    from icepack.kernel.rewrite import rewrite
    from icepack.kernel.storage import Storage, is_storage_fault

    outputs = tuple(output.replace(ATTEMPT, str(attempt)) for output in item.task.outputs)
    try:
        return Answer(item.group, attempt, written=rewrite(replace(item.task, outputs=outputs), Storage(storage)))
    except FileNotFoundError as exc:
        return Answer(item.group, attempt, gone=str(exc))
    except Uncovered as exc:
        return Answer(item.group, attempt, uncovered=str(exc))
    except DamagedPage as exc:
        return Answer(item.group, attempt, damaged=str(exc))
    except Exception as exc:
        if is_storage_fault(exc):
            raise
        return Answer(item.group, attempt, failed=f"{type(exc).__name__}: {exc}")


def versions(_: Iterator[Any]) -> Iterator[str]:
    """The probe: which libraries this executor has, or what is missing."""
    try:
        import numpy
        import pyarrow

        yield _obstacle() or f"pyarrow {pyarrow.__version__}, numpy {numpy.__version__}"
    except ImportError as exc:
        yield f"missing: {exc}"


def _obstacle() -> str:
    """Why this PyArrow will not do, by trying it: an older one does not know all that it is asked for."""
    import pyarrow as pa

    try:
        from icepack.kernel.parquet.chunk_writer import encode
        from icepack.kernel.parquet.encoding import write_options
        from icepack.kernel.task import Writing

        words = pa.ListArray.from_arrays([0, 1], pa.array(["word"]).dictionary_encode())
        field = pa.field("words", pa.list_(pa.string()))
        encode(pa.chunked_array([words]), pa.schema([field]), {**write_options(Writing()), "use_dictionary": True})
    except Exception as exc:
        # Whatever it is, Spark can do without; and what it is tells whoever wants the kernel to run here.
        return f"missing: a PyArrow that the kernel runs on; {pa.__version__} says {type(exc).__name__}: {exc}"
    return ""
