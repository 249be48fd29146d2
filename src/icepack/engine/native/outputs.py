"""Checks, describes and deletes the output files of tasks before they are committed."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from icepack.engine.native.tasks import RewriteGroup
from icepack.errors import RowsChanged
from icepack.kernel.executor import TaskResult

log = logging.getLogger(__name__)


def group_results(results: Iterable[TaskResult]) -> dict[int, list[TaskResult]]:
    """Groups the results of tasks by group number."""
    found: dict[int, list[TaskResult]] = {}
    for result in results:
        found.setdefault(result.group, []).append(result)
    return found


def check_row_counts(group: RewriteGroup, results: Sequence[TaskResult]) -> None:
    """Checks that every row of the inputs was read, and that every row read was written or was deleted."""
    written = [result.written for result in results if result.written]
    rows_read = sum(item.rows_in for item in written)
    rows_written, dropped = sum(item.rows_out for item in written), sum(item.rows_dropped for item in written)
    if rows_read != group.records or rows_read != rows_written + dropped:
        raise RowsChanged(
            f"A rewrite of {len(group.files)} files with {group.records:,} rows read {rows_read:,}, wrote "
            f"{rows_written:,} and dropped {dropped:,} deleted rows. Nothing was committed; the table is unchanged."
        )


def build_commit_request(
    groups: Sequence[RewriteGroup], results: Mapping[int, list[TaskResult]], is_sorted: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """The paths of the files that a commit removes, and descriptions of the files that it adds."""
    removed = [path for group in groups for path in group.paths]
    added = [
        {
            "path": file.path,
            "like": group.files[0].path,
            "bytes": file.bytes,
            "nan_counts": {str(field_id): count for field_id, count in file.nan_counts.items()},
            "bounds": {str(field_id): [_encode(raw) for raw in pair] for field_id, pair in file.bounds.items()},
            "split_offsets": list(file.split_offsets),
            "sorted": is_sorted,
        }
        for group in groups
        for result in results[group.number]
        if result.written
        for file in result.written.files
    ]
    return removed, added


def _encode(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


def delete_outputs(table: Any, paths: Iterable[str]) -> None:
    """Deletes outputs that were not committed; some of them may never have been written."""
    from py4j.protocol import Py4JJavaError

    io = table.io()
    for path in paths:
        try:
            io.deleteFile(path)
        except Py4JJavaError:
            log.warning("could not delete the uncommitted file %s; it is now an orphan file", path)
