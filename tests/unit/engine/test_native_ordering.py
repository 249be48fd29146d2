from __future__ import annotations

import pytest

from icepack.domain.plan.files import PartitionKey
from icepack.engine.native.java_rewrite import LiveFile
from icepack.engine.native.ordering import MAX_SORT_BYTES, MIN_SORT_MEMORY_BYTES, RowOrdering
from icepack.engine.native.tasks import RewriteGroup
from icepack.kernel.sorting.sort_order import SortKey, SortOrder


@pytest.mark.parametrize(
    ("task_bytes", "group_bytes", "reason"),
    [
        (MIN_SORT_MEMORY_BYTES, MAX_SORT_BYTES, None),
        (MIN_SORT_MEMORY_BYTES - 1, 1, "a sort on executors with too little memory for a Python task"),
        (MIN_SORT_MEMORY_BYTES, MAX_SORT_BYTES + 1, "a sort too large for one task"),
    ],
)
def test_a_task_sorts_a_group_if_it_has_enough_memory_and_disk(
    task_bytes: int, group_bytes: int, reason: str | None
) -> None:
    file = LiveFile(path="f", format="PARQUET", spec_id=0, bytes=group_bytes, records=10, sequence_number=1)
    group = RewriteGroup(number=0, partition=PartitionKey(0, ""), files=(file,), deletes={})
    key = SortKey(field_id=1, descending=False, nulls_first=True)
    assert RowOrdering(order=SortOrder(kind="sort", keys=(key,))).group_fallback_reason(group, task_bytes) == reason
    assert RowOrdering().group_fallback_reason(group, task_bytes) is None, (
        "rows that keep their order need no extra memory"
    )
