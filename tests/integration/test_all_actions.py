"""Runs every action on tables that are difficult to maintain: no branch or tag may lose a row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from icepack import __version__
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
    commits_snapshot,
)
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId

from .difficult_tables import BUILDERS, every_type
from .lake import Lake, create_orphan_file, list_files, read_rows

NO_AGE = timedelta(0)
POSITION_DELETES = RewritePositionDeletes(remove_dangling=True, options={"rewrite-all": "true"})
COMPACTION = Compact(rewrite_all=True, delete_file_threshold=1)
STATISTICS = ComputeStats(partition_stats=True)
EXPIRY = ExpireSnapshots(older_than=NO_AGE, clean_expired_metadata=True)
ORPHANS = RemoveOrphanFiles(older_than=NO_AGE, override_age_floor=True)


def run_all_actions(lake: Lake, table: TableId) -> Iterator[tuple[Action, RunRecord]]:
    """Runs every action with parameters that make it do as much as possible."""
    for action in (POSITION_DELETES, COMPACTION, RewriteManifests(), STATISTICS, EXPIRY, ORPHANS):
        yield action, lake.run(table, action)


@pytest.mark.parametrize("name", BUILDERS)
def test_no_action_changes_a_row(lake: Lake, name: str) -> None:
    table = BUILDERS[name](lake)
    before = lake.rows_by_ref(table)
    orphan = create_orphan_file(lake.table_folder(table) / "data", days=0)
    for action, record in run_all_actions(lake, table):
        assert record.state is RunState.SUCCEEDED, f"{action.kind}: {record.message}"
        assert lake.rows_by_ref(table) == before, action.kind
        check_stamps(lake, record)
        check_proofs(record)
    assert not orphan.exists()
    status = lake.status(table)
    assert status.deletes.files == 0
    assert status.snapshots.count == len({ref.snapshot_id for ref in status.snapshots.refs})
    check_converged(lake, table)


def check_stamps(lake: Lake, record: RunRecord) -> None:
    for summary in lake.summaries(record):
        assert summary["icepack.job-id"] == str(record.job_id)
        assert summary["icepack.version"] == __version__
    if not commits_snapshot(record.kind):
        assert record.commits == ()
    if isinstance(record.action, Compact) and record.before is not None and record.before.data_files:
        assert record.commits, "a compaction of everything commits"


def check_proofs(record: RunRecord) -> None:
    assert all(proof.holds for proof in record.proofs)
    assert bool(record.proofs) == bool(record.commits) or record.kind == EXPIRY.kind
    assert not any("unprovable" in proof.method for proof in record.proofs)


def check_converged(lake: Lake, table: TableId) -> None:
    """Checks that the same actions have nothing to do in a second run."""
    for action in (RewritePositionDeletes(remove_dangling=True), RewriteManifests()):
        record = lake.run(table, action)
        assert record.state is RunState.SUCCEEDED, record.message
        assert record.changed_nothing, (action.kind, record.effect)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_action_supports_an_empty_table(lake: Lake, version: int) -> None:
    table = lake.create(hint="empty", version=version, partitioned_by="bucket(2, id)")
    for action, record in run_all_actions(lake, table):
        assert record.state is RunState.SUCCEEDED, f"{action.kind}: {record.message}"
        assert record.changed_nothing
    lake.append(table)
    assert lake.main_rows(table) == ["(1, 'a')"]


def test_rows_of_version_3_keep_their_ids_in_a_compaction(lake: Lake) -> None:
    table = lake.create(version=3)
    lake.append_numbers(table, files=3, rows=4)
    lake.sql(f"UPDATE {table} SET v = 'new' WHERE id IN (1, 5)")
    lineage = f"SELECT id, v, _row_id, _last_updated_sequence_number FROM {table}"
    before = read_rows(lake.sql(lineage))
    record = lake.run(table, COMPACTION)
    assert record.effect.files_rewritten > 1
    assert read_rows(lake.sql(lineage)) == before


@pytest.fixture
def compiled_queries(lake: Lake) -> Iterator[None]:
    """Enables code generation, which the tests otherwise disable, for queries that do more than copy."""
    settings = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: lake.spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        lake.spark.conf.set(key, value)
    yield
    for key, value in before.items():
        lake.spark.conf.set(key, str(value))


@pytest.mark.parametrize(
    ("layout", "columns"),
    [
        (Layout.SORT, ("i desc nulls last", "s")),
        (Layout.SORT, ("st.a", "ts asc")),
        (Layout.ZORDER, ("i", "l", "f", "d", "day", "ts", "ntz", "s", "bin", "flag")),
        (Layout.HILBERT, ("i", "l", "s", "day")),
    ],
)
def test_every_layout_keeps_every_row(
    lake: Lake, compiled_queries: None, layout: Layout, columns: tuple[str, ...]
) -> None:
    table = every_type(lake)
    before = lake.main_rows(table)
    record = lake.run(table, Compact(layout=layout, columns=columns, rewrite_all=True))
    assert record.state is RunState.SUCCEEDED, record.message
    assert (record.effect.files_rewritten, record.effect.files_added) == (3, 1)
    assert lake.main_rows(table) == before


@pytest.mark.parametrize("layout", [Layout.SORT, Layout.ZORDER, Layout.HILBERT])
@pytest.mark.parametrize("engine", list(RewriteEngine))
def test_sorting_by_an_unknown_column_is_rejected(lake: Lake, layout: Layout, engine: RewriteEngine) -> None:
    """It is rejected although a single file needs no rewrite."""
    table = lake.create()
    lake.append(table, "VALUES (1, 'a')")
    record = lake.run(table, Compact(layout=layout, columns=("id", "vv"), engine=engine))
    assert record.state is RunState.FAILED
    assert record.message == "Cannot sort by 'vv': the table has no such column. Columns: id, v."


def test_sorting_sorts_the_rows(lake: Lake, compiled_queries: None) -> None:
    table = lake.create()
    lake.append(table, "VALUES (3, 'a'), (1, NULL), (2, 'a')")
    lake.append(table, "VALUES (5, 'b'), (4, 'c')")
    lake.run(table, Compact(layout=Layout.SORT, columns=("v desc", "id"), rewrite_all=True))
    (file,) = lake.metadata(table, "files")
    rows = [tuple(row) for row in lake.spark.read.parquet(file["file_path"]).collect()]
    assert rows == [(4, "c"), (5, "b"), (2, "a"), (3, "a"), (1, None)]


def test_a_table_inside_the_folder_of_another_table(lake: Lake) -> None:
    outer = lake.create(hint="outer")
    inner = lake.create(hint="inner", location=f"{lake.java_table(outer).location()}/data/inner")
    for table in (outer, inner):
        lake.append_numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id = 1")
    rows, files = {table: lake.rows_by_ref(table) for table in (outer, inner)}, list_files(lake.table_folder(inner))
    for action, record in run_all_actions(lake, outer):
        expected = RunState.REFUSED if isinstance(action, RemoveOrphanFiles) else RunState.SUCCEEDED
        assert record.state is expected, f"{action.kind}: {record.message}"
        assert {table: lake.rows_by_ref(table) for table in (outer, inner)} == rows, action.kind
    assert list_files(lake.table_folder(inner)) == files
    for action, _ in run_all_actions(lake, inner):
        assert {table: lake.rows_by_ref(table) for table in (outer, inner)} == rows, action.kind
    lake.sql(f"DROP TABLE {inner}")
