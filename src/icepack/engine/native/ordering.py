"""In which order the rows of a group are written, and whether the kernel can put them so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icepack.domain.actions import Compact, Layout
from icepack.engine.actions.options import SortColumn, sort_column
from icepack.engine.native.coverage import TableFacts
from icepack.engine.native.tasks import Group
from icepack.kernel.sorting.sort_order import Kind, Order, SortKey, is_sortable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SORT_LIMIT_BYTES = 4 * 2**30
"""Of a group's files: one task sorts it alone, on its own disk; Spark's shuffle spreads what is larger."""
SORT_LEAST_BYTES = 128 * 2**20
"""Of a task's memory: with less, a sort was seen to take up to 100 MB more than the task was promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """`order` is None when the rows keep the order they have."""

    order: Order | None = None
    obstacle: str | None = None
    is_table_order: bool = False

    @property
    def json(self) -> dict[str, Any] | None:
        return None if self.order is None else self.order.to_dict()

    def too_large(self, group: Group, task_bytes: int) -> str | None:
        """Why one task with so much memory cannot sort the group; None when it can, or need not."""
        if self.order is None:
            return None
        if task_bytes < SORT_LEAST_BYTES:
            return "a sort in executors that leave a Python task little memory"
        return "a sort too large for one task" if group.bytes > SORT_LIMIT_BYTES else None


def order_of(spark: SparkSession, table: Any, facts: TableFacts, action: Compact) -> Ordering:
    if action.layout is Layout.BINPACK:
        return Ordering()
    if action.layout is Layout.SORT and not action.columns:
        return _table_order(spark, table, facts)
    columns = [sort_column(text) for text in action.columns]
    if action.layout is not Layout.SORT:
        columns = [SortColumn(text, descending=False, nulls_first=True) for text in action.columns]
    return _ordering(facts, action.layout, columns)


def _table_order(spark: SparkSession, table: Any, facts: TableFacts) -> Ordering:
    parser = spark.sparkContext._jvm.org.apache.iceberg.SortOrderParser
    said = json.loads(parser.toJson(table.sortOrder()))
    names = {field["id"]: field["name"] for field in facts.schema["fields"]}
    if not said["fields"]:
        return Ordering(obstacle="a sort without columns")
    if any(field["transform"] != "identity" or field["source-id"] not in names for field in said["fields"]):
        return Ordering(obstacle="a sort by a transform or a nested column")
    columns = [
        SortColumn(names[field["source-id"]], field["direction"] == "desc", field["null-order"] == "nulls-first")
        for field in said["fields"]
    ]
    found = _ordering(facts, Layout.SORT, columns)
    return Ordering(order=found.order, obstacle=found.obstacle, is_table_order=True)


_KINDS: dict[Layout, Kind] = {Layout.SORT: "sort", Layout.ZORDER: "zorder", Layout.HILBERT: "hilbert"}


def _ordering(facts: TableFacts, layout: Layout, columns: list[SortColumn]) -> Ordering:
    kind = _KINDS[layout]
    fields = {field["name"]: field for field in facts.schema["fields"]}
    keys = []
    for column in columns:
        field = fields.get(column.name)
        if field is None or not isinstance(field["type"], str) or not is_sortable(field["type"], kind):
            return Ordering(obstacle=f"ordering by {column.name}")
        keys.append(SortKey(field_id=field["id"], descending=column.descending, nulls_first=column.nulls_first))
    if not keys:
        return Ordering(obstacle=f"{layout} without columns")
    return Ordering(order=Order(kind=kind, keys=tuple(keys)))
