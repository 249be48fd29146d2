"""Groups of files as tasks: each one output of even size, its files in the order in which they were written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from icepack.domain.plan.files import PartitionKey
from icepack.engine.native.coverage import TableFacts
from icepack.engine.native.jvm import JavaRewrite, LiveDelete, LiveFile
from icepack.kernel.executor import Assignment
from icepack.kernel.task import ATTEMPT, DeleteFile, Input, Task

STRETCH = 1.1
"""An output may be this much over its target rather than leave a small one behind."""
LEAST_CUT = 0.25
"""Of an output's share: what is smaller is not cut in two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files of one partition that are rewritten, and committed, together."""

    number: int
    partition: PartitionKey
    files: tuple[LiveFile, ...]
    deletes: Mapping[int, LiveDelete]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


def outputs_for(total_bytes: int, target_bytes: int) -> int:
    """How many files near the target; never a small one for what is left over."""
    whole = max(-(-total_bytes // max(target_bytes, 1)), 1)
    return whole - 1 if whole > 1 and total_bytes / (whole - 1) <= target_bytes * STRETCH else whole


def split(files: Sequence[LiveFile], parts: int) -> list[list[Input]]:
    """The files' rows in `parts` runs of even size; only large files are cut, the others go where most of them lies."""
    share = sum(file.bytes for file in files) / parts or 1.0
    runs: list[list[Input]] = [[] for _ in range(parts)]
    begin = 0.0
    for file in files:
        for run, start, stop in _cuts(file, begin / share, (begin + file.bytes) / share, parts):
            runs[run].append(_input(file, start, stop))
        begin += file.bytes
    return [run for run in runs if run]


def _cuts(file: LiveFile, begin: float, end: float, parts: int) -> list[tuple[int, int, int]]:
    """Run, first row and last row of each part of a file that lies from `begin` to `end`, counted in runs."""
    if end - begin < LEAST_CUT or file.records < parts:
        return [(min(int((begin + end) / 2), parts - 1), 0, file.records)]
    inside = range(int(begin) + 1, min(math.ceil(end), parts))
    rows = [0, *(round(file.records * (edge - begin) / (end - begin)) for edge in inside), file.records]
    first = min(int(begin), parts - 1)
    return [(first + number, *pair) for number, pair in enumerate(pairwise(rows)) if pair[0] < pair[1]]


def _input(file: LiveFile, start: int, stop: int) -> Input:
    return Input(
        path=file.path,
        bytes=file.bytes,
        records=file.records,
        sequence_number=file.sequence_number,
        first_row_id=file.first_row_id,
        start=start,
        stop=None if stop >= file.records else stop,
        constants=file.constants,
    )


def group_tasks(
    group: Group,
    rewrite: JavaRewrite,
    facts: TableFacts,
    *,
    target_bytes: int,
    name: str,
    order: dict[str, Any] | None,
    memory_bytes: int,
) -> list[Assignment]:
    """`name` begins the names of all outputs; sorted outputs come out of one task together."""
    parts = outputs_for(group.bytes, target_bytes)
    runs = [[_input(file, 0, file.records) for file in group.files]] if order else split(group.files, parts)
    made = []
    first = 0
    for run in runs:
        count = parts if order else 1
        outputs = tuple(
            rewrite.location(run[0].path, f"{name}-{group.number:05d}-{first + position:05d}-{ATTEMPT}.parquet")
            for position in range(count)
        )
        first += count
        task = Task(
            outputs=outputs,
            schema=dict(facts.schema),
            inputs=tuple(run),
            lineage=facts.format_version >= 3,
            name_mapping=facts.name_mapping,
            order=order,
            writing=facts.writing,
            memory_bytes=memory_bytes,
        )
        made.append(Assignment(group.number, _with_deletes(task, group)))
    return made


def _with_deletes(task: Task, group: Group) -> Task:
    """Each input with its own positions and vector; equality deletes are told apart by their sequence numbers."""
    of_path = {file.path: [group.deletes[number] for number in file.deletes] for file in group.files}
    used = {delete.identity: delete for item in task.inputs for delete in of_path[item.path]}
    positions = [delete for delete in used.values() if delete.kind == "position"]
    number_of = {delete.identity: number for number, delete in enumerate(positions)}
    inputs = [_deleted(item, of_path[item.path], number_of) for item in task.inputs]
    return replace(
        task,
        inputs=tuple(inputs),
        position_deletes=tuple(_delete_file(delete) for delete in positions),
        equality_deletes=tuple(_delete_file(delete) for delete in used.values() if delete.kind == "equality"),
    )


def _deleted(item: Input, deletes: Sequence[LiveDelete], number_of: Mapping[tuple[str, int], int]) -> Input:
    if not deletes:
        return item
    vector = next((delete for delete in deletes if delete.kind == "vector"), None)
    return replace(
        item,
        position_deletes=tuple(number_of[delete.identity] for delete in deletes if delete.kind == "position"),
        vector=None if vector is None else (vector.path, vector.offset, vector.length),
    )


def _delete_file(delete: LiveDelete) -> DeleteFile:
    return DeleteFile(
        path=delete.path,
        bytes=delete.bytes,
        sequence_number=delete.sequence_number,
        equality_ids=delete.equality_ids,
    )
