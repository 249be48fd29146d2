"""Tables that break careless maintenance: every action runs on each, and no branch or tag may lose a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, UUIDType

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
from icepack.engine import sql

from .lakes import Lake, content, equality_delete, files_below, stray

NOW = timedelta(0)
POSITION_DELETES = RewritePositionDeletes(remove_dangling=True, options={"rewrite-all": "true"})
COMPACTION = Compact(rewrite_all=True, delete_file_threshold=1)
STATISTICS = ComputeStats(partition_stats=True)
EXPIRY = ExpireSnapshots(older_than=NOW, clean_expired_metadata=True)
ORPHANS = RemoveOrphanFiles(older_than=NOW, override_age_floor=True)

BUILDERS: dict[str, Callable[[Lake], TableId]] = {}


def awkward(build: Callable[[Lake], TableId]) -> Callable[[Lake], TableId]:
    BUILDERS[build.__name__] = build
    return build


@awkward
def schema_evolution(lake: Lake) -> TableId:
    table = lake.create(
        "id INT, a STRING, b FLOAT, n DECIMAL(5,2), "
        "s STRUCT<x: INT, y: STRING>, l ARRAY<STRUCT<p: INT>>, m MAP<STRING, STRUCT<q: INT>>"
    )
    old = "named_struct('x', {0}, 'y', 'y{0}'), array(named_struct('p', {0})), map('k', named_struct('q', {0}))"
    lake.append(table, f"SELECT 1, 'a1', 1.5F, 1.25, {old.format(1)} UNION ALL SELECT 2{', NULL' * 6}")
    lake.append(table, f"SELECT 3, 'a3', 3.5F, 3.25, {old.format(3)}")
    for change in (
        "DROP COLUMN a",
        "RENAME COLUMN b TO a",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN a TYPE DOUBLE",
        "ALTER COLUMN n TYPE DECIMAL(9,2)",
        "ADD COLUMN b STRING FIRST",
        "ADD COLUMNS (s.z STRING, l.element.r INT, m.value.t STRING)",
        "ALTER COLUMN s.x TYPE BIGINT",
        "RENAME COLUMN s.x TO w",
        "DROP COLUMN s.y",
        "ALTER COLUMN m FIRST",
        "ALTER COLUMN n AFTER m",
    ):
        lake.sql(f"ALTER TABLE {table} {change}")
    lake.sql(
        f"INSERT INTO {table} SELECT map('k', named_struct('q', 4, 't', 't')), 4.25, 'b4', 4L, 4.5D, "
        "named_struct('w', 4L, 'z', 'z4'), array(named_struct('p', 4, 'r', 5))"
    )
    lake.sql(f"DELETE FROM {table} WHERE id = 3")
    return table


@awkward
def partition_evolution(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v STRING, d DATE", partitioned_by="v")
    lake.append(table, "VALUES (1, 'a', DATE'2024-01-01'), (2, 'b', NULL), (3, NULL, DATE'2024-01-03')")
    lake.append(table, "VALUES (11, 'a', DATE'2024-01-01'), (12, 'b', NULL)")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD v")
    lake.sql(f"ALTER TABLE {table} ADD PARTITION FIELD days(d)")
    lake.append(table, "VALUES (4, 'a', DATE'2024-01-01'), (5, 'b', DATE'2024-01-02'), (6, 'c', NULL)")
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 4)")
    lake.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD d_day WITH bucket(4, id)")
    lake.append(table, "VALUES (7, 'a', DATE'2024-01-01'), (8, 'b', DATE'2024-01-02')")
    lake.sql(f"ALTER TABLE {table} DROP PARTITION FIELD bucket(4, id)")
    lake.append(table, "VALUES (9, 'a', DATE'2024-01-01')")
    lake.sql(f"DELETE FROM {table} WHERE id IN (2, 5, 9)")
    return table


@awkward
def every_type(lake: Lake) -> TableId:
    table = lake.create(
        "i INT, l BIGINT, f FLOAT, d DOUBLE, flag BOOLEAN, "
        "dec9 DECIMAL(9,2), dec18 DECIMAL(18,3), dec38 DECIMAL(38,10), "
        "day DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, s STRING, bin BINARY, "
        "st STRUCT<a: INT, b: STRUCT<c: ARRAY<DECIMAL(20,4)>>>, arr ARRAY<ARRAY<STRING>>, "
        "mp MAP<STRUCT<k: INT>, ARRAY<DATE>>"
    )
    lake.append(
        table,
        "SELECT 2147483647, -9223372036854775808L, CAST('NaN' AS FLOAT), CAST('-Infinity' AS DOUBLE), true, "
        "-1234567.89, 123456789012345.678, 1234567890123456789012345678.0123456789, DATE'0001-01-01', "
        "TIMESTAMP'1900-01-01 00:00:00.000001', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', 'a\\u0000b😀', X'00FF', "
        "named_struct('a', 1, 'b', named_struct('c', array(1.5, NULL))), array(array('x', NULL), NULL, array()), "
        "map(named_struct('k', 1), array(DATE'2024-02-29'))",
    )
    lake.append(table, "SELECT " + ", ".join(["NULL"] * 16))
    lake.append(
        table,
        "SELECT 0, 0, -0.0F, -0.0D, false, 0, 0, 0, DATE'9999-12-31', TIMESTAMP'2024-03-31 02:30:00', "
        "TIMESTAMP_NTZ'2024-03-31 02:30:00', '', X'', named_struct('a', NULL, 'b', NULL), array(), map()",
    )
    return table


@awkward
def uuids_and_fixed(lake: Lake) -> TableId:
    table = lake.name("uuids")
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(4))
    )
    created = lake.catalogs.open("lake").create_table((*table.namespace, table.name), schema)
    arrow = pa.schema([("id", pa.int64()), ("u", pa.uuid()), ("f", pa.binary(4))])
    for number in range(3):
        values = {"id": [number, None], "u": [UUID(int=number).bytes, None], "f": [b"abc\0", None]}
        created.append(pa.table(values, schema=arrow))
    return table


@awkward
def variants(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v VARIANT", version=3)
    for number in range(3):
        body = f'{{"a": {number}, "b": [1, "x", null], "c": {{"d": 1.5}}}}'
        lake.append(table, f"SELECT {number}, parse_json('{body}') UNION ALL SELECT NULL, NULL")
    lake.sql(f"DELETE FROM {table} WHERE id = 1")
    return table


@awkward
def defaults_of_version_3(lake: Lake) -> TableId:
    """Files written before a column was added have its initial default; a rewrite must write it down."""
    table = lake.create(version=3)
    lake.numbers(table, files=2)
    literal = lake.iceberg.expressions.Expressions.lit("as ever")
    kind = lake.iceberg.types.Types.StringType.get()
    lake.java(table).updateSchema().addColumn("c", kind, "", literal).commit()
    lake.append(table, "VALUES (100, 'x', 'mine'), (101, 'y', NULL)")
    assert "as ever" in "".join(lake.main(table))
    return table


@awkward
def position_deletes_by_file(lake: Lake) -> TableId:
    return _position_deletes(lake, "file")


@awkward
def position_deletes_by_partition(lake: Lake) -> TableId:
    return _position_deletes(lake, "partition")


def _position_deletes(lake: Lake, granularity: str) -> TableId:
    table = lake.create(partitioned_by="truncate(10, id)", properties={"write.delete.granularity": granularity})
    lake.numbers(table, files=2)
    lake.numbers(table, files=2)
    for number in range(3):
        lake.sql(f"DELETE FROM {table} WHERE id IN ({number}, {10 + number})")
    lake.sql(f"UPDATE {table} SET v = 'updated' WHERE id = 5")
    return table


@awkward
def equality_deletes(lake: Lake) -> TableId:
    """Deleted by value, by null, twice, and written again after it was deleted."""
    table = lake.create()
    lake.append(table, "VALUES (1, 'a'), (2, 'b'), (3, NULL), (NULL, 'd'), (NULL, NULL)")
    lake.append(table, "VALUES (1, 'again'), (5, 'e')")
    equality_delete(lake, table, ["id"], [(1,), (None,)])
    lake.append(table, "VALUES (1, 'after'), (NULL, 'after')")
    equality_delete(lake, table, ["v"], [(None,)])
    equality_delete(lake, table, ["id", "v"], [(2, "b"), (5, "other")])
    lake.append(table, "VALUES (2, 'b'), (6, NULL)")
    lake.sql(f"DELETE FROM {table} WHERE id = 6")
    assert lake.main(table) == ["(1, 'after')", "(2, 'b')", "(5, 'e')", "(None, 'after')"]
    return table


@awkward
def equality_deletes_by_partition(lake: Lake) -> TableId:
    table = lake.create(partitioned_by="v")
    lake.append(table, "VALUES (1, 'a'), (2, 'a'), (1, 'b')")
    equality_delete(lake, table, ["id"], [(1,)], partition="v=a")
    lake.append(table, "VALUES (1, 'a'), (3, 'b')")
    assert len(lake.main(table)) == 4
    return table


@awkward
def deletion_vectors(lake: Lake) -> TableId:
    table = lake.create(version=3, partitioned_by="bucket(2, id)")
    lake.numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id % 10 < 3")
    lake.sql(f"DELETE FROM {table} WHERE id % 10 = 5")
    lake.numbers(table, files=1, start=100)
    return table


@awkward
def upgraded_from_2_to_3(lake: Lake) -> TableId:
    """Old position deletes and new deletion vectors on the same files."""
    table = lake.create()
    lake.numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 11)")
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    lake.sql(f"DELETE FROM {table} WHERE id IN (2)")
    lake.numbers(table, files=1, start=100)
    return table


@awkward
def imported_without_field_ids(lake: Lake) -> TableId:
    source = lake.folder / "imported"
    frame = lake.sql("SELECT id, 'v' || id AS v, named_struct('x', id) AS s FROM range(0, 20, 1, 2)")
    frame.write.mode("overwrite").parquet(f"file://{source}")
    table = lake.create("id BIGINT, v STRING, s STRUCT<x: BIGINT>")
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{source}`')")
    lake.append(table, "SELECT 100, 'own', named_struct('x', 1L)")
    lake.sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    lake.sql(f"DELETE FROM {table} WHERE id IN (3, 100)")
    return table


@awkward
def branches_and_tags(lake: Lake) -> TableId:
    table = lake.create()
    lake.numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} CREATE TAG early")
    lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    lake.sql(f"DELETE FROM {table} WHERE id = 3")
    lake.append(table, "VALUES (1000, 'only on audit')", branch="audit")
    lake.sql(f"DELETE FROM {sql.table_name(table)}.branch_audit WHERE id = 4")
    lake.sql(f"ALTER TABLE {table} CREATE TAG `odd tag-1.2` AS OF VERSION {lake.head(table)}")
    lake.numbers(table, files=2, start=100)
    lake.sql(f"ALTER TABLE {table} ADD COLUMN late INT")
    lake.append(table, "VALUES (200, 'late', 1)")
    return table


@awkward
def orc_avro_and_parquet(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v STRING, l ARRAY<STRUCT<a: INT>>")
    rows = "SELECT id, 'v' || id, array(named_struct('a', CAST(id AS INT))) FROM range({}, {})"
    for number, kind in enumerate(("orc", "avro", "parquet", "orc", "avro")):
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = '{kind}')")
        lake.append(table, rows.format(number * 10, number * 10 + 10))
    for kind in ("orc", "avro"):
        lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.format.default' = '{kind}')")
        lake.sql(f"DELETE FROM {table} WHERE id % 10 = {len(kind)}")
    return table


@awkward
def three_hundred_columns(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, " + ", ".join(f"c{number} INT" for number in range(300)))
    values = ", ".join(f"CAST(id + {number} AS INT)" for number in range(300))
    for first in (0, 5):
        lake.append(table, f"SELECT id, {values} FROM range({first}, {first + 5})")
    return table


@awkward
def megabyte_values(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v STRING, b BINARY")
    large = "repeat(chr(97 + {0}), 1500000), CAST(repeat(uuid(), 40000) AS BINARY)"
    for number in range(2):
        lake.append(table, f"SELECT {number}, {large.format(number)} FROM range(2)")
    return table


@awkward
def odd_partition_values(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v STRING", partitioned_by="v")
    values = ("'a/b'", "'a=b&c'", "' '", "''", "'%2F'", "'null'", "NULL", "'Ünï😀'", "'a''b'", "'..'", "'a`b\"c'")
    for number in range(2):
        lake.append(table, "VALUES " + ", ".join(f"({number}, {value})" for value in values))
    lake.sql(f"DELETE FROM {table} WHERE id = 0 AND (v = 'a/b' OR v IS NULL)")
    return table


@awkward
def files_elsewhere(lake: Lake) -> TableId:
    """Data and metadata outside the table's location, hashed into folders, metadata compressed."""
    elsewhere = lake.folder / "elsewhere"
    table = lake.create(
        partitioned_by="bucket(2, id)",
        properties={
            "write.object-storage.enabled": "true",
            "write.data.path": f"file://{elsewhere}/data",
            "write.metadata.path": f"file://{elsewhere}/metadata",
            "write.metadata.compression-codec": "gzip",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "2",
        },
    )
    lake.numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id = 3")
    return table


@awkward
def emptied(lake: Lake) -> TableId:
    """Snapshots, but not one row."""
    table = lake.create()
    lake.numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id % 2 = 0")
    lake.sql(f"DELETE FROM {table} WHERE true")
    return table


@awkward
def version_1(lake: Lake) -> TableId:
    table = lake.create(version=1, partitioned_by="bucket(2, id)")
    lake.numbers(table, files=3)
    return table


def steps(lake: Lake, table: TableId) -> Iterator[tuple[Action, RunRecord]]:
    """Every action, each with a proper chance to do damage."""
    for action in (POSITION_DELETES, COMPACTION, RewriteManifests(), STATISTICS, EXPIRY, ORPHANS):
        yield action, lake.run(table, action)


@pytest.mark.parametrize("name", BUILDERS)
def test_no_action_changes_a_row(lake: Lake, name: str) -> None:
    table = BUILDERS[name](lake)
    before = lake.rows(table)
    litter = stray(lake.place(table) / "data", days=0)
    for action, record in steps(lake, table):
        assert record.state is RunState.SUCCEEDED, f"{action.kind}: {record.message}"
        assert lake.rows(table) == before, action.kind
        check_stamps(lake, record)
        check_proofs(record)
    assert not litter.exists()
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
    """Run again, the same actions have nothing left to do."""
    for action in (RewritePositionDeletes(remove_dangling=True), RewriteManifests()):
        record = lake.run(table, action)
        assert record.state is RunState.SUCCEEDED, record.message
        assert record.changed_nothing, (action.kind, record.effect)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_empty_table_survives_every_action(lake: Lake, version: int) -> None:
    table = lake.create(hint="empty", version=version, partitioned_by="bucket(2, id)")
    for action, record in steps(lake, table):
        assert record.state is RunState.SUCCEEDED, f"{action.kind}: {record.message}"
        assert record.changed_nothing
    lake.append(table)
    assert lake.main(table) == ["(1, 'a')"]


def test_row_ids_of_version_3_outlive_a_compaction(lake: Lake) -> None:
    """Row lineage is part of the table: `_row_id` must stay with its row."""
    table = lake.create(version=3)
    lake.numbers(table, files=3, rows=4)
    lake.sql(f"UPDATE {table} SET v = 'new' WHERE id IN (1, 5)")
    lineage = f"SELECT id, v, _row_id, _last_updated_sequence_number FROM {table}"
    before = content(lake.sql(lineage))
    record = lake.run(table, COMPACTION)
    assert record.effect.files_rewritten > 1
    assert content(lake.sql(lineage)) == before


@pytest.fixture
def compiled(lake: Lake) -> Iterator[None]:
    """Queries compiled and planned as users have it, where they do more than copy."""
    wanted = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: lake.spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
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
def test_every_layout_keeps_every_row(lake: Lake, compiled: None, layout: Layout, columns: tuple[str, ...]) -> None:
    table = every_type(lake)
    before = lake.main(table)
    record = lake.run(table, Compact(layout=layout, columns=columns, rewrite_all=True))
    assert record.state is RunState.SUCCEEDED, record.message
    assert (record.effect.files_rewritten, record.effect.files_added) == (3, 1)
    assert lake.main(table) == before


@pytest.mark.parametrize("layout", [Layout.SORT, Layout.ZORDER, Layout.HILBERT])
@pytest.mark.parametrize("engine", list(RewriteEngine))
def test_an_order_by_a_column_that_is_not_there_is_refused(lake: Lake, layout: Layout, engine: RewriteEngine) -> None:
    """Although one file gives nothing to rewrite."""
    table = lake.create()
    lake.append(table, "VALUES (1, 'a')")
    record = lake.run(table, Compact(layout=layout, columns=("id", "vv"), engine=engine))
    assert record.state is RunState.FAILED
    assert record.message == "The table has no column 'vv' to order by. It has: id, v."


def test_a_sort_really_sorts(lake: Lake, compiled: None) -> None:
    table = lake.create()
    lake.append(table, "VALUES (3, 'a'), (1, NULL), (2, 'a')")
    lake.append(table, "VALUES (5, 'b'), (4, 'c')")
    lake.run(table, Compact(layout=Layout.SORT, columns=("v desc", "id"), rewrite_all=True))
    (file,) = lake.metadata(table, "files")
    rows = [tuple(row) for row in lake.spark.read.parquet(file["file_path"]).collect()]
    assert rows == [(4, "c"), (5, "b"), (2, "a"), (3, "a"), (1, None)]


def test_a_table_inside_another_ones_folder(lake: Lake) -> None:
    outer = lake.create(hint="outer")
    inner = lake.create(hint="inner", location=f"{lake.java(outer).location()}/data/inner")
    for table in (outer, inner):
        lake.numbers(table, files=2)
        lake.sql(f"DELETE FROM {table} WHERE id = 1")
    rows, files = {table: lake.rows(table) for table in (outer, inner)}, files_below(lake.place(inner))
    for action, record in steps(lake, outer):
        wanted = RunState.REFUSED if isinstance(action, RemoveOrphanFiles) else RunState.SUCCEEDED
        assert record.state is wanted, f"{action.kind}: {record.message}"
        assert {table: lake.rows(table) for table in (outer, inner)} == rows, action.kind
    assert files_below(lake.place(inner)) == files
    for action, _ in steps(lake, inner):
        assert {table: lake.rows(table) for table in (outer, inner)} == rows, action.kind
    lake.sql(f"DROP TABLE {inner}")
