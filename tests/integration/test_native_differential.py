"""The native rewrite beside Spark's, from the same snapshot: the same rows, the same row ids, the same metrics."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import DoubleType, FloatType, LongType, PrimitiveType

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.native.coverage import TableFacts
from icepack.kernel.arrow_schema import LINEAGE_IDS
from icepack.kernel.projection import LOST_FIELDS

from .lakes import Lake, equality_delete
from .random_tables import DEFAULTS, Step, Story, fixed_stories, java_type, stories, table_of
from .readers import Rows, answers, exact_rows, expected_answers, predicates
from .tally import Tally

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
    if story.ordered_by:
        lake.sql(f"ALTER TABLE {table} WRITE ORDERED BY {story.ordered_by}")
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


def _hive(lake: Lake, table: TableId, step: Step) -> None:
    """Partition folders of which one is Hive's for null."""
    rows = table_of(step)
    folder = lake.place(table) / f"hive-{uuid4()}"
    for value in set(rows["p"].to_pylist()):
        inside = folder / f"p={NO_VALUE if value is None else value}"
        inside.mkdir(parents=True)
        part = rows.filter(pc.is_null(rows["p"]) if value is None else pc.equal(rows["p"], value)).drop_columns("p")
        if step.stored is not None:
            part = part.append_column("p", pa.array([step.stored] * len(part), pa.string()))
        pq.write_table(part, inside / f"{uuid4()}.parquet", store_schema=False, row_group_size=11)
    source = f"`parquet`.`file:{folder}`"
    lake.sql(f"CALL lake.system.add_files(table => '{table}', source_table => '{source}')").collect()


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _equality_in_partition(lake: Lake, table: TableId, step: Step) -> None:
    random = Random(step.seed)
    part = random.choice("xy")
    ids = [(random.choice([None, *range(step.first)]),) for _ in range(5)]
    if random.random() < 0.5:
        equality_delete(lake, table, ["id"], ids, partition=f"p={part}")
    else:
        equality_delete(lake, table, ["p", "id"], [(part, *id) for id in ids], partition=f"p={part}")


def _add(lake: Lake, table: TableId, step: Step) -> None:
    (column,) = step.columns
    lake.java(table).updateSchema().addColumn(column.name, java_type(lake, column.kind)).commit()
    lake.sql(f"REFRESH TABLE {table}")


def _default(lake: Lake, table: TableId, step: Step) -> None:
    (column,) = step.columns
    kind = java_type(lake, column.kind)
    literal = lake.iceberg.expressions.Expressions.lit(DEFAULTS[column.kind.name]).to(kind)
    where = (step.parent,) if step.parent else ()
    lake.java(table).updateSchema().addColumn(*where, column.name, kind, "", literal).commit()
    lake.sql(f"REFRESH TABLE {table}")


STEPS = {
    "append": _append,
    "sql": _sql,
    "equality": _equality,
    "equality_in_partition": _equality_in_partition,
    "foreign": _foreign,
    "hive": _hive,
    "add": _add,
    "default": _default,
}


def shown(lake: Lake, table: TableId, version: int) -> pa.Table:
    lineage = ", _row_id, _last_updated_sequence_number" if version >= 3 else ""
    return lake.sql(f"SELECT *{lineage} FROM {table}").toArrow()


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


KNOWN_REASONS = tuple(
    re.compile(pattern)
    for pattern in (
        re.escape(LOST_FIELDS),
        "default of the nested column .*",
        "a sort by a transform or a nested column",
    )
)
"""Why a group of these tables may go to Spark: everything else is done natively."""


@dataclass(frozen=True)
class Compacted:
    rows: Rows
    metrics: dict[str, Any]
    record: RunRecord

    @property
    def copied_bytes(self) -> int:
        return int((self.record.details or {}).get("copied_bytes", 0))


def compacted(lake: Lake, table: TableId, story: Story, engine: RewriteEngine) -> Compacted:
    action = Compact(
        layout=story.layout,
        columns=story.sort_by,
        rewrite_all=True,
        delete_file_threshold=1,
        target_file_bytes=story.target_bytes,
        engine=engine,
    )
    record = lake.run(table, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert all(proof.holds for proof in record.proofs)
    if engine is RewriteEngine.NATIVE:
        assert record.value_proof is None or record.value_proof.mismatch is None, record.value_proof
        why = [group["why"] for group in (record.details or {}).get("groups", ()) if group["engine"] != "native"]
        assert all(any(known.fullmatch(reason) for known in KNOWN_REASONS) for reason in why), why
    return Compacted(exact_rows(shown(lake, table, story.version)), metrics(lake, table), record)


def check(lake: Lake, story: Story, page_rows: int | None, tally: Tally) -> int:
    """How many bytes the native rewrite has copied."""
    tally.tables += 1
    table = tell(lake, story)
    head, before = lake.head(table), shown(lake, table, story.version)
    expected = exact_rows(before)
    with pages_of(page_rows):
        natively = compacted(lake, table, story, RewriteEngine.NATIVE)
    assert natively.rows == expected
    check_readers(lake, table, before)
    lake.java(table).manageSnapshots().rollbackTo(head).commit()
    by_spark = compacted(lake, table, story, RewriteEngine.SPARK)
    assert by_spark.rows == expected
    for name, found in by_spark.metrics.items():
        assert natively.metrics[name] == found, name
    lake.sql(f"DROP TABLE {table} PURGE")
    tally.count(natively.record)
    return natively.copied_bytes


def check_readers(lake: Lake, table: TableId, before: pa.Table) -> None:
    """Filters find the rows that they found, and PyIceberg shows what Spark shows."""
    columns = [name for name in before.column_names if not name.startswith("_")]
    filters = predicates(lake, table, before, Random(len(before)), MOST_FILTERS)
    asked = expected_answers(lake, before, filters)
    assert answers(lake, table, filters) == asked, "filters"
    by_pyiceberg = lake.catalogs.load(table).scan().to_arrow()
    expected = exact_rows(before.select(columns), is_empty_null=True)
    assert exact_rows(by_pyiceberg, is_empty_null=True) == expected, "PyIceberg"


MOST_FILTERS = 3
"""Columns of a table that are filtered by."""


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


def test_native_and_spark_make_the_same_table(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    copied: dict[bool, list[int]] = {True: [], False: []}
    tally = Tally("differential")

    @given(stories(), PAGE_ROWS)
    @settings(QUIET, derandomize=True)
    def same(story: Story, page_rows: int | None) -> None:
        copied[page_rows is not None].append(check(lake, story, page_rows, tally))

    with tally.printed(capsys):
        for name, story in fixed_stories().items():
            copied_bytes = check(lake, story, None, tally)
            assert name != "copied" or copied_bytes, "some row groups were copied"
        same()
    assert any(copied[True]), "some pages were joined"
    assert not all(copied[False]), "others were encoded"


@pytest.mark.skipif(not SOAK, reason="make soak")
def test_for_as_long_as_one_likes(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """Other tables with every round."""
    tally = Tally("differential")
    ends_at = time.monotonic() + SOAK_SECONDS
    with tally.printed(capsys):
        for number in count(Random().getrandbits(32)):

            @seed(number)
            @given(stories(), PAGE_ROWS)
            @settings(QUIET)
            def same(story: Story, page_rows: int | None) -> None:
                check(lake, story, page_rows, tally)

            same()
            if time.monotonic() >= ends_at:
                return
