"""Determines the sort order of the rewritten rows, and whether the kernel supports it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from icepack.domain.actions import Compact, Layout
from icepack.engine.actions.options import SortColumn, parse_sort_column
from icepack.engine.native.table_facts import TableFacts
from icepack.engine.native.tasks import RewriteGroup
from icepack.kernel.sorting.sort_order import SortKey, SortKind, SortOrder, is_sortable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The maximum size of a group that is sorted natively: one task sorts it, using its local disk. Spark's shuffle
# distributes larger groups over several tasks.
MAX_SORT_BYTES = 4 * 2**30
# The minimum memory of a task that sorts: with less, a sort used up to 100 MB more than the budget of the task.
MIN_SORT_MEMORY_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrdering:
    """The order in which rows are written; `order` is None if they keep their current order."""

    order: SortOrder | None = None
    fallback_reason: str | None = None
    is_table_order: bool = False

    @property
    def json(self) -> dict[str, Any] | None:
        return None if self.order is None else self.order.to_dict()

    def group_fallback_reason(self, group: RewriteGroup, task_bytes: int) -> str | None:
        """Why one task with this much memory cannot sort the group; None if it can or need not."""
        if self.order is None:
            return None
        if task_bytes < MIN_SORT_MEMORY_BYTES:
            return "a sort on executors with too little memory for a Python task"
        return "a sort too large for one task" if group.bytes > MAX_SORT_BYTES else None


def resolve_ordering(spark: SparkSession, table: Any, facts: TableFacts, action: Compact) -> RowOrdering:
    if action.layout is Layout.BINPACK:
        return RowOrdering()
    if action.layout is Layout.SORT and not action.columns:
        return _table_order(spark, table, facts)
    columns = [parse_sort_column(text) for text in action.columns]
    if action.layout is not Layout.SORT:
        columns = [SortColumn(text, descending=False, nulls_first=True) for text in action.columns]
    return _build_ordering(facts, action.layout, columns)


def _table_order(spark: SparkSession, table: Any, facts: TableFacts) -> RowOrdering:
    parser = spark.sparkContext._jvm.org.apache.iceberg.SortOrderParser
    order = json.loads(parser.toJson(table.sortOrder()))
    names = {field["id"]: field["name"] for field in facts.schema["fields"]}
    if not order["fields"]:
        return RowOrdering(fallback_reason="a sort without columns")
    if any(field["transform"] != "identity" or field["source-id"] not in names for field in order["fields"]):
        return RowOrdering(fallback_reason="a sort by a transform or a nested column")
    columns = [
        SortColumn(names[field["source-id"]], field["direction"] == "desc", field["null-order"] == "nulls-first")
        for field in order["fields"]
    ]
    return replace(_build_ordering(facts, Layout.SORT, columns), is_table_order=True)


_SORT_KINDS: dict[Layout, SortKind] = {Layout.SORT: "sort", Layout.ZORDER: "zorder", Layout.HILBERT: "hilbert"}


def _build_ordering(facts: TableFacts, layout: Layout, columns: list[SortColumn]) -> RowOrdering:
    kind = _SORT_KINDS[layout]
    fields = {field["name"]: field for field in facts.schema["fields"]}
    keys = []
    for column in columns:
        field = fields.get(column.name)
        if field is None or not isinstance(field["type"], str) or not is_sortable(field["type"], kind):
            return RowOrdering(fallback_reason=f"ordering by {column.name}")
        keys.append(SortKey(field_id=field["id"], descending=column.descending, nulls_first=column.nulls_first))
    if not keys:
        return RowOrdering(fallback_reason=f"{layout} without columns")
    return RowOrdering(order=SortOrder(kind=kind, keys=tuple(keys)))
