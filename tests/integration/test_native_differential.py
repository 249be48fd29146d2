"""The native rewrite beside Spark's, from the same snapshot: the same rows, the same row ids, the same metrics."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DoubleType, FloatType, LongType, PrimitiveType

from icepack.domain.actions import Compact, Layout, RewriteEngine
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine.native.coverage import TableFacts
from icepack.kernel.project import LOST_FIELDS
from icepack.kernel.schema import LINEAGE_IDS

from .lakes import Lake, content, equality_delete
from .random_tables import FIXED_BYTES, Step, Story, stories, table_of

SOAK = bool(os.environ.get("ICEPACK_SOAK"))
SOAK_SECONDS = float(os.environ.get("ICEPACK_SOAK_SECONDS", "1800"))
EXAMPLES = 22


def tell(lake: Lake, story: Story) -> TableId:
    """The story's table, written by Spark, by others and by streaming writers."""
    columns = ", ".join(f"{column.name} {column.kind.sql}" for column in story.columns)
    table = lake.create(
        f"id BIGINT, p STRING, {columns}",
        hint="random",
        partitioned_by=story.partitioned_by,
        version=story.version,
        properties=story.properties,
    )
    for step in story.steps:
        STEPS[step.do](lake, table, step)
    return table


def _append(lake: Lake, table: TableId, step: Step) -> None:
    lake.spark.createDataFrame(table_of(step)).coalesce(1).writeTo(str(table)).append()


def _sql(lake: Lake, table: TableId, step: Step) -> None:
    lake.sql(step.sql.format(table))


def _equality(lake: Lake, table: TableId, step: Step) -> None:
    random = Random(step.seed)
    ids = [(random.choice([None, *range(step.first)]),) for _ in range(3)]
    if random.random() < 0.7:
        equality_delete(lake, table, ["id"], ids)
    else:
        equality_delete(lake, table, ["p", "id"], [(random.choice(("x", "y", None)), *id) for id in ids])


def _foreign(lake: Lake, table: TableId, step: Step) -> None:
    """Written without field ids, as files are that a table is made from."""
    java = lake.java(table)
    mapping = lake.iceberg.mapping.MappingUtil.create(java.schema())
    said = lake.iceberg.mapping.NameMappingParser.toJson(mapping)
    java.updateProperties().set("schema.name-mapping.default", said).commit()
    path = lake.place(table) / "data" / f"foreign-{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(step), path, store_schema=False, row_group_size=11)
    file = java.io().newInputFile(path.as_uri())
    config = lake.iceberg.MetricsConfig.forTable(java)
    metrics = lake.iceberg.parquet.ParquetUtil.fileMetrics(file, config, mapping)
    built = lake.iceberg.DataFiles.builder(java.spec()).withInputFile(file).withMetrics(metrics).withFormat("parquet")
    java.newAppend().appendFile(built.build()).commit()


def _add(lake: Lake, table: TableId, step: Step) -> None:
    types = lake.iceberg.types.Types
    kinds = {"uuid": types.UUIDType.get(), "fixed": types.FixedType.ofLength(FIXED_BYTES)}
    for column in step.columns:
        lake.java(table).updateSchema().addColumn(column.name, kinds[column.kind.name]).commit()
    lake.sql(f"REFRESH TABLE {table}")


STEPS = {"append": _append, "sql": _sql, "equality": _equality, "foreign": _foreign, "add": _add}


def rows(lake: Lake, table: TableId, version: int) -> list[str]:
    lineage = ", _row_id, _last_updated_sequence_number" if version >= 3 else ""
    return content(lake.sql(f"SELECT *{lineage} FROM {table}"))


def metrics(lake: Lake, table: TableId) -> dict[str, Any]:
    """Of all files together: what a reader that prunes by them would know.

    A column has no upper bound at all where one of the files has none: no cut of `ff ff ff …` is greater than it.
    """
    schema = lake.catalogs.load(table).schema()
    kinds = {number: field.field_type for number, field in schema._lazy_id_to_field.items()}
    kinds |= dict.fromkeys(LINEAGE_IDS, LongType())
    found: dict[str, Any] = {name: defaultdict(int) for name in COUNTS}
    endless: dict[str, set[int]] = {"lower": set(), "upper": set()}
    found |= {"lower": {}, "upper": {}, "records": 0, "partitions": set(), "orders": set(), "specs": set()}
    for file in lake.metadata(table, "files"):
        assert file["content"] == 0, "all deletes were applied"
        found["records"] += file["record_count"]
        found["partitions"].add(repr(file.get("partition")))
        found["orders"].add(file["sort_order_id"])
        found["specs"].add(file["spec_id"])
        for name in COUNTS:
            for number, value in (file[name] or {}).items():
                found[name][number] += value
        for side, name, better in (("lower", "lower_bounds", min), ("upper", "upper_bounds", max)):
            for number, raw in (file[name] or {}).items():
                value = _comparable(kinds.get(number), bytes(raw))
                found[side][number] = better(found[side].get(number, value), value)
            endless[side] |= _valued(file) - (file[name] or {}).keys()
    return found | {side: {**found[side], **dict.fromkeys(endless[side], "endless")} for side in endless}


def _valued(file: dict[str, Any]) -> set[int]:
    """Columns of which the file has values that could be bounds."""
    counts, nulls, nans = (file[name] or {} for name in COUNTS)
    return {number for number, count in counts.items() if count > nulls.get(number, 0) + nans.get(number, 0)}


COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")


def _comparable(kind: Any, raw: bytes) -> Any:
    """In the order of the type; bytes that are a floating point number keep the sign of their zero."""
    if not isinstance(kind, PrimitiveType):
        return raw
    value = from_bytes(kind, raw)
    if isinstance(kind, FloatType | DoubleType):
        return value, str(value)[0] != "-"
    return value


@dataclass(frozen=True)
class Compacted:
    rows: list[str]
    metrics: dict[str, Any]
    copied_bytes: int


def compacted(lake: Lake, table: TableId, story: Story, engine: RewriteEngine) -> Compacted:
    action = Compact(
        layout=Layout.SORT if story.sort_by else Layout.BINPACK,
        columns=story.sort_by,
        rewrite_all=True,
        delete_file_threshold=1,
        target_file_bytes=story.target_bytes,
        engine=engine,
    )
    record = lake.run(table, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert all(proof.holds for proof in record.proofs)
    if engine is RewriteEngine.NATIVE and (record.details or {}).get("groups"):
        left = [group for group in record.details["groups"] if group["engine"] != "native"]
        assert all(group["why"] == LOST_FIELDS for group in left), left
    copied = (record.details or {}).get("copied_bytes", 0)
    return Compacted(rows(lake, table, story.version), metrics(lake, table), copied)


def check(lake: Lake, story: Story, page_rows: int | None) -> int:
    """How many bytes the native rewrite has copied."""
    table = tell(lake, story)
    head, before = lake.head(table), rows(lake, table, story.version)
    with pages_of(page_rows):
        natively = compacted(lake, table, story, RewriteEngine.NATIVE)
    assert natively.rows == before
    lake.java(table).manageSnapshots().rollbackTo(head).commit()
    by_spark = compacted(lake, table, story, RewriteEngine.SPARK)
    assert by_spark.rows == before
    for name, expected in by_spark.metrics.items():
        assert natively.metrics[name] == expected, name
    lake.sql(f"DROP TABLE {table} PURGE")
    return natively.copied_bytes


@contextmanager
def pages_of(rows: int | None) -> Iterator[None]:
    """So few rows that the pages of these small files are large enough to be joined.

    Not by the table's own properties: a table that has some to say about pages has none of them joined.
    """
    told = TableFacts.writing.fget
    assert told is not None
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            patch.setattr(TableFacts, "writing", property(lambda facts: replace(told(facts), page_rows=rows)))
        yield


PAGE_ROWS = st.sampled_from([None, 4])
QUIET = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    max_examples=EXAMPLES,
    phases=[Phase.generate, Phase.shrink] if SOAK else [Phase.generate],
)


def test_native_and_spark_make_the_same_table(lake: Lake) -> None:
    copied: dict[bool, list[int]] = {True: [], False: []}

    @given(stories(), PAGE_ROWS)
    @settings(QUIET, derandomize=True)
    def same(story: Story, page_rows: int | None) -> None:
        copied[page_rows is not None].append(check(lake, story, page_rows))

    same()
    assert any(copied[True]), "some pages were joined"
    assert any(copied[False]), "some row groups were copied"
    assert not all(copied[False]), "others were encoded"


def test_for_as_long_as_one_likes(lake: Lake) -> None:
    """`make soak`: other tables with every round; without it, one round of one table."""
    ends_at = time.monotonic() + (SOAK_SECONDS if SOAK else 0)
    for number in count(Random().getrandbits(32) if SOAK else 1):

        @seed(number)
        @given(stories(), PAGE_ROWS)
        @settings(QUIET, max_examples=EXAMPLES if SOAK else 1)
        def same(story: Story, page_rows: int | None) -> None:
            check(lake, story, page_rows)

        same()
        if time.monotonic() >= ends_at:
            return
