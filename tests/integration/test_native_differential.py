"""Compares the native rewrite with that of Spark, from the same snapshot: equal rows, row ids and metrics."""

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
from pyiceberg.types import DoubleType, FloatType, LongType, PrimitiveType, UUIDType

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.native.table_facts import TableFacts
from icepack.kernel.arrow_schema import LINEAGE_FIELD_IDS
from icepack.kernel.projection import STRUCT_WITHOUT_FIELDS

from .lake import Lake, commit_equality_delete
from .random_tables import Step, TableScenario, build_rows, fixed_scenarios, table_scenarios
from .random_types import DEFAULTS, to_java_type
from .readers import Rows, build_filters, normalize_rows, run_filters, run_filters_in_memory
from .run_report import RunReport

SOAK = bool(os.environ.get("ICEPACK_SOAK"))
SOAK_SECONDS = float(os.environ.get("ICEPACK_SOAK_SECONDS", "1800"))
EXAMPLES = 22


def create_table(lake: Lake, scenario: TableScenario) -> TableId:
    """Creates the table of a scenario, written by Spark, by other programs and by streaming writers."""
    columns = ", ".join(f"{column.name} {column.type.sql}" for column in scenario.columns)
    table = lake.create(
        f"id BIGINT, p STRING, {columns}",
        hint="random",
        partitioned_by=scenario.partitioned_by,
        version=scenario.version,
        properties=scenario.properties,
    )
    if scenario.ordered_by:
        lake.sql(f"ALTER TABLE {table} WRITE ORDERED BY {scenario.ordered_by}")
    for step in scenario.steps:
        STEPS[step.action](lake, table, step)
    return table


def _append(lake: Lake, table: TableId, step: Step) -> None:
    lake.spark.createDataFrame(build_rows(step)).coalesce(1).writeTo(str(table)).append()


def _run_sql(lake: Lake, table: TableId, step: Step) -> None:
    lake.sql(step.sql.format(table))


def _delete_by_equality(lake: Lake, table: TableId, step: Step) -> None:
    random = Random(step.seed)
    ids = [(random.choice([None, *range(step.first)]),) for _ in range(3)]
    if random.random() < 0.7:
        commit_equality_delete(lake, table, ["id"], ids)
    else:
        commit_equality_delete(lake, table, ["p", "id"], [(random.choice(("x", "y", None)), *id) for id in ids])


def _import_file(lake: Lake, table: TableId, step: Step) -> None:
    """Imports a file without field ids."""
    java = lake.java_table(table)
    mapping = lake.iceberg.mapping.MappingUtil.create(java.schema())
    mapping_json = lake.iceberg.mapping.NameMappingParser.toJson(mapping)
    java.updateProperties().set("schema.name-mapping.default", mapping_json).commit()
    path = lake.table_folder(table) / "data" / f"imported-{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(build_rows(step), path, store_schema=False, row_group_size=11)
    file = java.io().newInputFile(path.as_uri())
    config = lake.iceberg.MetricsConfig.forTable(java)
    metrics = lake.iceberg.parquet.ParquetUtil.fileMetrics(file, config, mapping)
    builder = lake.iceberg.DataFiles.builder(java.spec()).withInputFile(file).withMetrics(metrics).withFormat("parquet")
    java.newAppend().appendFile(builder.build()).commit()


def _import_hive(lake: Lake, table: TableId, step: Step) -> None:
    """Imports Hive partition folders, including the folder for null."""
    rows = build_rows(step)
    folder = lake.table_folder(table) / f"hive-{uuid4()}"
    for value in set(rows["p"].to_pylist()):
        partition = folder / f"p={HIVE_NULL if value is None else value}"
        partition.mkdir(parents=True)
        part = rows.filter(pc.is_null(rows["p"]) if value is None else pc.equal(rows["p"], value)).drop_columns("p")
        if step.stored is not None:
            part = part.append_column("p", pa.array([step.stored] * len(part), pa.string()))
        pq.write_table(part, partition / f"{uuid4()}.parquet", store_schema=False, row_group_size=11)
    source = f"`parquet`.`file:{folder}`"
    lake.sql(f"CALL lake.system.add_files(table => '{table}', source_table => '{source}')").collect()


# The folder name that Hive uses for null.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def _delete_by_equality_in_partition(lake: Lake, table: TableId, step: Step) -> None:
    random = Random(step.seed)
    part = random.choice("xy")
    ids = [(random.choice([None, *range(step.first)]),) for _ in range(5)]
    if random.random() < 0.5:
        commit_equality_delete(lake, table, ["id"], ids, partition=f"p={part}")
    else:
        commit_equality_delete(lake, table, ["p", "id"], [(part, *id) for id in ids], partition=f"p={part}")


def _add_column(lake: Lake, table: TableId, step: Step) -> None:
    (column,) = step.columns
    lake.java_table(table).updateSchema().addColumn(column.name, to_java_type(lake, column.type)).commit()
    lake.sql(f"REFRESH TABLE {table}")


def _add_column_with_default(lake: Lake, table: TableId, step: Step) -> None:
    (column,) = step.columns
    kind = to_java_type(lake, column.type)
    literal = lake.iceberg.expressions.Expressions.lit(DEFAULTS[column.type.name]).to(kind)
    parent = (step.parent,) if step.parent else ()
    lake.java_table(table).updateSchema().addColumn(*parent, column.name, kind, "", literal).commit()
    lake.sql(f"REFRESH TABLE {table}")


STEPS = {
    "append": _append,
    "sql": _run_sql,
    "equality_delete": _delete_by_equality,
    "equality_delete_in_partition": _delete_by_equality_in_partition,
    "import_file": _import_file,
    "import_hive": _import_hive,
    "add": _add_column,
    "default": _add_column_with_default,
}


def read_table(lake: Lake, table: TableId, version: int) -> pa.Table:
    lineage = ", _row_id, _last_updated_sequence_number" if version >= 3 else ""
    return lake.sql(f"SELECT *{lineage} FROM {table}").toArrow()


def combine_metrics(lake: Lake, table: TableId) -> dict[str, Any]:
    """Combines the metrics of all files, as a reader that skips files by them would see them.

    A column has no upper bound if one of the files has none: no truncation of `ff ff ff …` is greater than it.
    UUIDs are left out: Iceberg's comparator takes `fc…` for less than `4e…`, Parquet's does not, so that the bounds of
    Spark's files depend on how rows are spread. Of native outputs only those that the value check samples are verified.
    """
    schema = lake.catalogs.load(table).schema()
    kinds = {field_id: field.field_type for field_id, field in schema._lazy_id_to_field.items()}
    kinds |= dict.fromkeys(LINEAGE_FIELD_IDS, LongType())
    found: dict[str, Any] = {name: defaultdict(int) for name in COUNTS}
    unbounded: dict[str, set[int]] = {"lower": set(), "upper": set()}
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
                if isinstance(kinds.get(number), UUIDType):
                    continue
                value = _comparable(kinds.get(number), bytes(raw))
                found[side][number] = better(found[side].get(number, value), value)
            unbounded[side] |= _columns_with_values(file) - (file[name] or {}).keys()
    return found | {side: {**found[side], **dict.fromkeys(unbounded[side], "unbounded")} for side in unbounded}


def _columns_with_values(file: dict[str, Any]) -> set[int]:
    """The columns with values that could be bounds."""
    counts, nulls, nans = (file[name] or {} for name in COUNTS)
    return {number for number, count in counts.items() if count > nulls.get(number, 0) + nans.get(number, 0)}


COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")


def _comparable(kind: Any, raw: bytes) -> Any:
    """Decodes a bound into a value that compares in the order of the type; zeros keep their sign."""
    if not isinstance(kind, PrimitiveType):
        return raw
    value = from_bytes(kind, raw)
    if isinstance(kind, FloatType | DoubleType):
        return value, str(value)[0] != "-"
    return value


# The reasons for which groups of these tables may fall back to Spark; all others must be rewritten native.
EXPECTED_FALLBACKS = tuple(
    re.compile(pattern)
    for pattern in (
        re.escape(STRUCT_WITHOUT_FIELDS),
        "default of the nested column .*",
        "a sort by a transform or a nested column",
    )
)


@dataclass(frozen=True)
class CompactionResult:
    rows: Rows
    metrics: dict[str, Any]
    record: RunRecord

    @property
    def copied_bytes(self) -> int:
        return int((self.record.details or {}).get("copied_bytes", 0))


def compact_and_read(lake: Lake, table: TableId, scenario: TableScenario, engine: RewriteEngine) -> CompactionResult:
    action = Compact(
        layout=scenario.layout,
        columns=scenario.sort_by,
        rewrite_all=True,
        delete_file_threshold=1,
        target_file_bytes=scenario.target_bytes,
        engine=engine,
    )
    record = lake.run(table, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert all(proof.holds for proof in record.proofs)
    if engine is RewriteEngine.NATIVE:
        assert record.value_proof is None or record.value_proof.mismatch is None, record.value_proof
        reasons = [group["why"] for group in (record.details or {}).get("groups", ()) if group["engine"] != "native"]
        assert all(any(expected.fullmatch(reason) for expected in EXPECTED_FALLBACKS) for reason in reasons), reasons
    return CompactionResult(
        normalize_rows(read_table(lake, table, scenario.version)), combine_metrics(lake, table), record
    )


def check(lake: Lake, scenario: TableScenario, page_rows: int | None, report: RunReport) -> int:
    """Compares both rewrites of a scenario; returns how many bytes the native rewrite copied."""
    report.tables += 1
    table = create_table(lake, scenario)
    head, before = lake.current_snapshot_id(table), read_table(lake, table, scenario.version)
    expected = normalize_rows(before)
    with limit_page_rows(page_rows):
        native = compact_and_read(lake, table, scenario, RewriteEngine.NATIVE)
    assert native.rows == expected
    check_readers(lake, table, before)
    lake.java_table(table).manageSnapshots().rollbackTo(head).commit()
    by_spark = compact_and_read(lake, table, scenario, RewriteEngine.SPARK)
    assert by_spark.rows == expected
    for name, found in by_spark.metrics.items():
        assert native.metrics[name] == found, name
    lake.sql(f"DROP TABLE {table} PURGE")
    report.add(native.record)
    return native.copied_bytes


def check_readers(lake: Lake, table: TableId, before: pa.Table) -> None:
    """Checks that filters find the same rows as before, and that PyIceberg reads the same rows as Spark."""
    columns = [name for name in before.column_names if not name.startswith("_")]
    filters = build_filters(lake, table, before, Random(len(before)), MAX_FILTERED_COLUMNS)
    expected_ids = run_filters_in_memory(lake, before, filters)
    assert run_filters(lake, table, filters) == expected_ids, "filters"
    by_pyiceberg = lake.catalogs.load(table).scan().to_arrow()
    expected = normalize_rows(before.select(columns), is_empty_null=True)
    assert normalize_rows(by_pyiceberg, is_empty_null=True) == expected, "PyIceberg"


# The number of columns that are filtered by.
MAX_FILTERED_COLUMNS = 3


@contextmanager
def limit_page_rows(rows: int | None) -> Iterator[None]:
    """Limits the rows of a page, so that the pages of these small files are large enough to be merged.

    Table properties cannot be used: pages are not merged if the table sets properties of pages.
    """
    original = TableFacts.write_properties.fget
    assert original is not None
    with pytest.MonkeyPatch.context() as patch:
        if rows is not None:
            limited = property(lambda facts: replace(original(facts), page_rows=rows))
            patch.setattr(TableFacts, "write_properties", limited)
        yield


SMALL_PAGE_ROWS = 4
PAGE_ROWS = st.sampled_from([None, SMALL_PAGE_ROWS])
HYPOTHESIS_SETTINGS = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    max_examples=EXAMPLES,
    phases=[Phase.generate, Phase.shrink] if SOAK else [Phase.generate],
)


def test_native_rewrite_and_spark_write_equal_tables(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport("differential")

    @given(table_scenarios(), PAGE_ROWS)
    @settings(HYPOTHESIS_SETTINGS, derandomize=True)
    def compare(scenario: TableScenario, page_rows: int | None) -> None:
        check(lake, scenario, page_rows, report)

    with report.print_at_end(capsys):
        for name, scenario in fixed_scenarios().items():
            copied_bytes = check(lake, scenario, SMALL_PAGE_ROWS if name == "merged" else None, report)
            assert name not in ("copied", "merged") or copied_bytes, "row groups are copied, or pages merged"
        compare()


@pytest.mark.skipif(not SOAK, reason="make soak")
def test_soak(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs with different tables in every round."""
    report = RunReport("differential")
    ends_at = time.monotonic() + SOAK_SECONDS
    with report.print_at_end(capsys):
        for number in count(Random().getrandbits(32)):

            @seed(number)
            @given(table_scenarios(), PAGE_ROWS)
            @settings(HYPOTHESIS_SETTINGS)
            def compare(scenario: TableScenario, page_rows: int | None) -> None:
                check(lake, scenario, page_rows, report)

            compare()
            if time.monotonic() >= ends_at:
                return
