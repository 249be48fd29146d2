from __future__ import annotations

import pytest

from icepack.domain.plan.files import PartitionKey
from icepack.engine.native.java_rewrite import LiveFile
from icepack.engine.native.outputs import check_row_counts
from icepack.engine.native.tasks import RewriteGroup
from icepack.errors import RowsChanged
from icepack.kernel.executor import TaskResult
from icepack.kernel.task import OutputFile, RewriteResult


def live_file(path: str) -> LiveFile:
    return LiveFile(path=path, format="PARQUET", spec_id=0, bytes=100, records=10, sequence_number=1)


def task_result(rows_in: int, rows_out: int, dropped: int) -> TaskResult:
    files = (OutputFile(path="o", bytes=1, rows=rows_out, nan_counts={}),)
    return TaskResult(0, 0, written=RewriteResult(files=files, rows_in=rows_in, rows_dropped=dropped, requests=0))


@pytest.mark.parametrize("counts", [[(10, 10, 0), (10, 9, 0)], [(10, 10, 0)], [(10, 10, 0), (10, 10, 1)]])
def test_wrong_row_counts_raise(counts: list[tuple[int, int, int]]) -> None:
    group = RewriteGroup(number=0, partition=PartitionKey(0, ""), files=(live_file("a"), live_file("b")), deletes={})
    with pytest.raises(RowsChanged, match="Nothing was committed"):
        check_row_counts(group, [task_result(*count) for count in counts])
    check_row_counts(group, [task_result(10, 8, 2), task_result(10, 10, 0)])
