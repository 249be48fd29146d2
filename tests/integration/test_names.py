"""Names that break careless SQL: spaces, quotes, dots, backticks, semicolons, Unicode, reserved words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from icepack.domain.actions import (
    Action,
    Compact,
    ComputeStats,
    ExpireSnapshots,
    Layout,
    RemoveOrphanFiles,
    RewriteEngine,
    RewriteManifests,
    RewritePositionDeletes,
)
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.engine import sql

from .lakes import Lake, files_below, quoted, stray

ODD = """a b;c'd"e`f.g 表ü-- select"""
COLUMNS = ("my col", 'quo"te', "dot.ted", "back`tick", "semi;colon", "ünïcode 表", "select", "it's", "a-b", "%s")

EVERYTHING: tuple[Action, ...] = (
    RewritePositionDeletes(remove_dangling=True, options={"rewrite-all": "true"}),
    Compact(rewrite_all=True, delete_file_threshold=1),
    RewriteManifests(),
    ComputeStats(partition_stats=True),
    ExpireSnapshots(older_than=timedelta(0)),
    RemoveOrphanFiles(older_than=timedelta(0), override_age_floor=True, max_share=1.0),
)


def odd_table(lake: Lake, table: TableId) -> TableId:
    columns = ", ".join(f"{quoted(column)} BIGINT" for column in COLUMNS)
    lake.create(columns, table=table, partitioned_by=f"{quoted('my col')}, bucket(2, {quoted('dot.ted')})")
    values = ", ".join(f"id AS {quoted(column)}" for column in COLUMNS[1:])
    for first in (0, 10):
        lake.append(table, f"SELECT id % 2 AS {quoted('my col')}, {values} FROM range({first}, {first + 10})")
    lake.sql(f"DELETE FROM {sql.table_name(table)} WHERE {quoted('dot.ted')} IN (3, 13)")
    return table


@pytest.mark.parametrize("namespace", [("db",), ("outer", ODD.replace(".", ""))], ids=["plain", "odd"])
def test_every_action_works_on_odd_names(lake: Lake, namespace: tuple[str, ...]) -> None:
    """No dot in the namespace: an SQL catalog takes it for two levels, and `outer` is a level of its own already."""
    for depth in range(1, len(namespace) + 1):
        lake.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{'.'.join(map(quoted, namespace[:depth]))}")
    table = odd_table(lake, TableId("lake", namespace, ODD if namespace == ("db",) else "select"))
    assert table in lake.discovery.tables()
    assert TableId.parse(str(table)) == table
    rows = lake.rows(table)
    litter = stray(lake.place(table) / "data", "a b;c'%20.parquet", days=0)
    for action in EVERYTHING:
        record = lake.run(table, action)
        assert record.state is RunState.SUCCEEDED, f"{action.kind}: {record.message}"
        assert lake.rows(table) == rows, action.kind
    assert not litter.exists()
    status = lake.status(table)
    assert (status.deletes.files, status.snapshots.count) == (0, 1)
    assert len(status.metadata.statistics_snapshot_ids) == 1


@pytest.fixture(scope="module")
def odd(lake: Lake) -> TableId:
    return odd_table(lake, TableId("lake", ("db",), 'columns "of every kind"'))


@pytest.mark.parametrize("column", COLUMNS)
def test_odd_columns_in_filters(lake: Lake, odd: TableId, column: str) -> None:
    rows = lake.main(odd)
    quote = '"' if '"' in column else "`"
    text = f"{quote}{column.replace(quote, quote * 2)}{quote} >= 0"
    record = lake.run(odd, Compact(partition_filter=text, rewrite_all=True))
    assert record.state is RunState.SUCCEEDED, record.message
    assert record.effect.files_rewritten > 0
    assert lake.main(odd) == rows


UNSAYABLE = ("dot.ted", "back`tick")
"""Iceberg 1.12 hands the columns of z-order, Hilbert and statistics to Spark unquoted; Spark cannot find these two."""
SAYABLE = tuple(column for column in COLUMNS if column not in UNSAYABLE)


@pytest.mark.parametrize(
    ("layout", "columns"), [(Layout.SORT, COLUMNS), (Layout.ZORDER, SAYABLE), (Layout.HILBERT, SAYABLE)]
)
def test_odd_columns_in_layouts(lake: Lake, odd: TableId, layout: Layout, columns: tuple[str, ...]) -> None:
    rows = lake.main(odd)
    record = lake.run(odd, Compact(layout=layout, columns=columns, rewrite_all=True))
    assert record.state is RunState.SUCCEEDED, record.message
    assert record.effect.files_rewritten > 0
    assert lake.main(odd) == rows


def test_odd_columns_in_statistics(lake: Lake, odd: TableId) -> None:
    record = lake.run(odd, ComputeStats(columns=SAYABLE))
    assert record.state is RunState.SUCCEEDED, record.message


BY_SPARK = Compact(engine=RewriteEngine.SPARK)
CURVES = (Layout.ZORDER, Layout.HILBERT)


@pytest.mark.parametrize("column", UNSAYABLE)
@pytest.mark.parametrize(
    "action", [replace(BY_SPARK, layout=Layout.ZORDER), replace(BY_SPARK, layout=Layout.HILBERT), ComputeStats()]
)
def test_columns_that_iceberg_cannot_say_are_refused_in_words(
    lake: Lake, odd: TableId, action: Compact | ComputeStats, column: str
) -> None:
    record = lake.run(odd, replace(action, columns=(column,)))
    assert record.state is RunState.FAILED
    assert "has a dot or a backtick" in record.message


def test_an_odd_partition_field_in_a_manifests_order(lake: Lake, odd: TableId) -> None:
    record = lake.run(odd, RewriteManifests(options={"sort-by": "my col"}))
    assert record.state is RunState.SUCCEEDED, record.message


def test_a_filter_cannot_smuggle_in_a_statement(lake: Lake, odd: TableId) -> None:
    before = files_below(lake.place(odd))
    text = f"`my col` = 1; DROP TABLE {sql.table_name(odd)}"
    record = lake.run(odd, Compact(partition_filter=text, rewrite_all=True))
    assert record.state is RunState.FAILED
    assert files_below(lake.place(odd)) == before
