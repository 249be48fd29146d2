"""Splits groups of files into tasks with one output each, of about equal size; files stay in the order of commits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from icepack.domain.plan.files import PartitionKey
from icepack.engine.native.java_rewrite import JavaRewrite, LiveDelete, LiveFile
from icepack.engine.native.table_facts import TableFacts
from icepack.kernel.executor import TaskAssignment
from icepack.kernel.task import ATTEMPT_PLACEHOLDER, DeleteFile, InputFile, Task

# An output may exceed its target size by this factor, if that avoids a small last output.
MAX_OVERSIZE = 1.1
# A file is split between outputs only if it has at least this share of an output's size.
MIN_SPLIT_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Files of one partition that are rewritten and committed together."""

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


def sort_by_age(files: Iterable[LiveFile]) -> tuple[LiveFile, ...]:
    """Sorts files in the order of their commits, so that rows that were written together stay together."""
    return tuple(sorted(files, key=lambda file: (file.sequence_number, file.first_row_id or 0, file.path)))


def count_outputs(total_bytes: int, target_bytes: int) -> int:
    """The number of outputs that are close to the target size, without a small last one."""
    whole = max(-(-total_bytes // max(target_bytes, 1)), 1)
    return whole - 1 if whole > 1 and total_bytes / (whole - 1) <= target_bytes * MAX_OVERSIZE else whole


def split_files(files: Sequence[LiveFile], parts: int) -> list[list[InputFile]]:
    """Distributes the rows over `parts` of equal size; only large files are split, others go where most of them is."""
    share = sum(file.bytes for file in files) / parts or 1.0
    found: list[list[InputFile]] = [[] for _ in range(parts)]
    begin = 0.0
    for file in files:
        for part, start, stop in _split_file(file, begin / share, (begin + file.bytes) / share, parts):
            found[part].append(_input_file(file, start, stop))
        begin += file.bytes
    return [part for part in found if part]


def _split_file(file: LiveFile, begin: float, end: float, parts: int) -> list[tuple[int, int, int]]:
    """Part, first row and end row of each piece of a file that extends from `begin` to `end`, in units of parts."""
    if end - begin < MIN_SPLIT_SHARE or file.records < parts:
        return [(min(int((begin + end) / 2), parts - 1), 0, file.records)]
    edges = range(int(begin) + 1, min(math.ceil(end), parts))
    rows = [0, *(round(file.records * (edge - begin) / (end - begin)) for edge in edges), file.records]
    first = min(int(begin), parts - 1)
    return [(first + number, *pair) for number, pair in enumerate(pairwise(rows)) if pair[0] < pair[1]]


def _input_file(file: LiveFile, start: int, stop: int) -> InputFile:
    return InputFile(
        path=file.path,
        bytes=file.bytes,
        records=file.records,
        sequence_number=file.sequence_number,
        first_row_id=file.first_row_id,
        start=start,
        stop=None if stop >= file.records else stop,
        constants=file.constants,
    )


def build_tasks(
    group: RewriteGroup,
    rewrite: JavaRewrite,
    facts: TableFacts,
    *,
    target_bytes: int,
    name: str,
    sort_order: dict[str, Any] | None,
    memory_bytes: int,
) -> list[TaskAssignment]:
    """Builds the tasks of a group; `name` is the prefix of all outputs, and one task writes all sorted outputs."""
    parts = count_outputs(group.bytes, target_bytes)
    whole_files = [_input_file(file, 0, file.records) for file in group.files]
    found = []
    first = 0
    for inputs in [whole_files] if sort_order else split_files(group.files, parts):
        count = parts if sort_order else 1
        outputs = tuple(
            rewrite.location(
                inputs[0].path, f"{name}-{group.number:05d}-{first + position:05d}-{ATTEMPT_PLACEHOLDER}.parquet"
            )
            for position in range(count)
        )
        first += count
        task = Task(
            outputs=outputs,
            schema=dict(facts.schema),
            inputs=tuple(inputs),
            lineage=facts.format_version >= 3,
            name_mapping=facts.name_mapping,
            sort_order=sort_order,
            write_properties=facts.write_properties,
            memory_bytes=memory_bytes,
        )
        found.append(TaskAssignment(group.number, _with_deletes(task, group)))
    return found


def _with_deletes(task: Task, group: RewriteGroup) -> Task:
    """Adds position deletes and vectors to their inputs; sequence numbers decide where equality deletes apply."""
    by_path = {file.path: [group.deletes[number] for number in file.deletes] for file in group.files}
    used = {delete.identity: delete for item in task.inputs for delete in by_path[item.path]}
    positions = [delete for delete in used.values() if delete.kind == "position"]
    indexes = {delete.identity: index for index, delete in enumerate(positions)}
    inputs = [_add_deletes(item, by_path[item.path], indexes) for item in task.inputs]
    return replace(
        task,
        inputs=tuple(inputs),
        position_deletes=tuple(_delete_file(delete) for delete in positions),
        equality_deletes=tuple(_delete_file(delete) for delete in used.values() if delete.kind == "equality"),
    )


def _add_deletes(item: InputFile, deletes: Sequence[LiveDelete], indexes: Mapping[tuple[str, int], int]) -> InputFile:
    if not deletes:
        return item
    vector = next((delete for delete in deletes if delete.kind == "vector"), None)
    return replace(
        item,
        position_deletes=tuple(indexes[delete.identity] for delete in deletes if delete.kind == "position"),
        deletion_vector=None if vector is None else (vector.path, vector.offset, vector.length),
    )


def _delete_file(delete: LiveDelete) -> DeleteFile:
    return DeleteFile(
        path=delete.path,
        bytes=delete.bytes,
        sequence_number=delete.sequence_number,
        equality_ids=delete.equality_ids,
    )
