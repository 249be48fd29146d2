"""Tables that are difficult to maintain, for tests that run every action on each of them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, UUIDType

from icepack.domain.table import TableId
from icepack.engine import sql

from .lake import Lake, commit_equality_delete

BUILDERS: dict[str, Callable[[Lake], TableId]] = {}


def difficult_table(build: Callable[[Lake], TableId]) -> Callable[[Lake], TableId]:
    """Registers a function that creates a table."""
    BUILDERS[build.__name__] = build
    return build


@difficult_table
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


@difficult_table
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


@difficult_table
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


@difficult_table
def uuids_and_fixed(lake: Lake) -> TableId:
    table = lake.new_table_id("uuids")
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(4))
    )
    created = lake.catalogs.open("lake").create_table((*table.namespace, table.name), schema)
    arrow = pa.schema([("id", pa.int64()), ("u", pa.uuid()), ("f", pa.binary(4))])
    for number in range(3):
        values = {"id": [number, None], "u": [UUID(int=number).bytes, None], "f": [b"abc\0", None]}
        created.append(pa.table(values, schema=arrow))
    return table


@difficult_table
def variants(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v VARIANT", version=3)
    for number in range(3):
        body = f'{{"a": {number}, "b": [1, "x", null], "c": {{"d": 1.5}}}}'
        lake.append(table, f"SELECT {number}, parse_json('{body}') UNION ALL SELECT NULL, NULL")
    lake.sql(f"DELETE FROM {table} WHERE id = 1")
    return table


@difficult_table
def defaults_of_version_3(lake: Lake) -> TableId:
    """Files that were written before a column was added have its initial default, which a rewrite must write."""
    table = lake.create(version=3)
    lake.append_numbers(table, files=2)
    literal = lake.iceberg.expressions.Expressions.lit("a default")
    kind = lake.iceberg.types.Types.StringType.get()
    lake.java_table(table).updateSchema().addColumn("c", kind, "", literal).commit()
    lake.append(table, "VALUES (100, 'x', 'own'), (101, 'y', NULL)")
    assert "a default" in "".join(lake.main_rows(table))
    return table


@difficult_table
def position_deletes_by_file(lake: Lake) -> TableId:
    return _position_deletes(lake, "file")


@difficult_table
def position_deletes_by_partition(lake: Lake) -> TableId:
    return _position_deletes(lake, "partition")


def _position_deletes(lake: Lake, granularity: str) -> TableId:
    table = lake.create(partitioned_by="truncate(10, id)", properties={"write.delete.granularity": granularity})
    lake.append_numbers(table, files=2)
    lake.append_numbers(table, files=2)
    for number in range(3):
        lake.sql(f"DELETE FROM {table} WHERE id IN ({number}, {10 + number})")
    lake.sql(f"UPDATE {table} SET v = 'updated' WHERE id = 5")
    return table


@difficult_table
def equality_deletes(lake: Lake) -> TableId:
    """Rows are deleted by value, by null and twice, and are inserted again after they were deleted."""
    table = lake.create()
    lake.append(table, "VALUES (1, 'a'), (2, 'b'), (3, NULL), (NULL, 'd'), (NULL, NULL)")
    lake.append(table, "VALUES (1, 'again'), (5, 'e')")
    commit_equality_delete(lake, table, ["id"], [(1,), (None,)])
    lake.append(table, "VALUES (1, 'after'), (NULL, 'after')")
    commit_equality_delete(lake, table, ["v"], [(None,)])
    commit_equality_delete(lake, table, ["id", "v"], [(2, "b"), (5, "other")])
    lake.append(table, "VALUES (2, 'b'), (6, NULL)")
    lake.sql(f"DELETE FROM {table} WHERE id = 6")
    assert lake.main_rows(table) == ["(1, 'after')", "(2, 'b')", "(5, 'e')", "(None, 'after')"]
    return table


@difficult_table
def equality_deletes_by_partition(lake: Lake) -> TableId:
    table = lake.create(partitioned_by="v")
    lake.append(table, "VALUES (1, 'a'), (2, 'a'), (1, 'b')")
    commit_equality_delete(lake, table, ["id"], [(1,)], partition="v=a")
    lake.append(table, "VALUES (1, 'a'), (3, 'b')")
    assert len(lake.main_rows(table)) == 4
    return table


@difficult_table
def deletion_vectors(lake: Lake) -> TableId:
    table = lake.create(version=3, partitioned_by="bucket(2, id)")
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id % 10 < 3")
    lake.sql(f"DELETE FROM {table} WHERE id % 10 = 5")
    lake.append_numbers(table, files=1, start=100)
    return table


@difficult_table
def upgraded_from_2_to_3(lake: Lake) -> TableId:
    """Position deletes and deletion vectors apply to the same files."""
    table = lake.create()
    lake.append_numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id IN (1, 11)")
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")
    lake.sql(f"DELETE FROM {table} WHERE id IN (2)")
    lake.append_numbers(table, files=1, start=100)
    return table


@difficult_table
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


@difficult_table
def branches_and_tags(lake: Lake) -> TableId:
    table = lake.create()
    lake.append_numbers(table, files=2)
    lake.sql(f"ALTER TABLE {table} CREATE TAG early")
    lake.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    lake.sql(f"DELETE FROM {table} WHERE id = 3")
    lake.append(table, "VALUES (1000, 'only on audit')", branch="audit")
    lake.sql(f"DELETE FROM {sql.table_name(table)}.branch_audit WHERE id = 4")
    lake.sql(f"ALTER TABLE {table} CREATE TAG `odd tag-1.2` AS OF VERSION {lake.current_snapshot_id(table)}")
    lake.append_numbers(table, files=2, start=100)
    lake.sql(f"ALTER TABLE {table} ADD COLUMN late INT")
    lake.append(table, "VALUES (200, 'late', 1)")
    return table


@difficult_table
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


@difficult_table
def three_hundred_columns(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, " + ", ".join(f"c{number} INT" for number in range(300)))
    values = ", ".join(f"CAST(id + {number} AS INT)" for number in range(300))
    for first in (0, 5):
        lake.append(table, f"SELECT id, {values} FROM range({first}, {first + 5})")
    return table


@difficult_table
def megabyte_values(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v STRING, b BINARY")
    large = "repeat(chr(97 + {0}), 1500000), CAST(repeat(uuid(), 40000) AS BINARY)"
    for number in range(2):
        lake.append(table, f"SELECT {number}, {large.format(number)} FROM range(2)")
    return table


@difficult_table
def odd_partition_values(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, v STRING", partitioned_by="v")
    values = ("'a/b'", "'a=b&c'", "' '", "''", "'%2F'", "'null'", "NULL", "'Ünï😀'", "'a''b'", "'..'", "'a`b\"c'")
    for number in range(2):
        lake.append(table, "VALUES " + ", ".join(f"({number}, {value})" for value in values))
    lake.sql(f"DELETE FROM {table} WHERE id = 0 AND (v = 'a/b' OR v IS NULL)")
    return table


@difficult_table
def files_outside_of_the_location(lake: Lake) -> TableId:
    """Data and metadata are outside of the table's location, in hashed folders, and metadata is compressed."""
    folder = lake.folder / "elsewhere"
    table = lake.create(
        partitioned_by="bucket(2, id)",
        properties={
            "write.object-storage.enabled": "true",
            "write.data.path": f"file://{folder}/data",
            "write.metadata.path": f"file://{folder}/metadata",
            "write.metadata.compression-codec": "gzip",
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "2",
        },
    )
    lake.append_numbers(table, files=3)
    lake.sql(f"DELETE FROM {table} WHERE id = 3")
    return table


@difficult_table
def all_rows_deleted(lake: Lake) -> TableId:
    """The table has snapshots, but no rows."""
    table = lake.create()
    lake.append_numbers(table, files=2)
    lake.sql(f"DELETE FROM {table} WHERE id % 2 = 0")
    lake.sql(f"DELETE FROM {table} WHERE true")
    return table


@difficult_table
def version_1(lake: Lake) -> TableId:
    table = lake.create(version=1, partitioned_by="bucket(2, id)")
    lake.append_numbers(table, files=3)
    return table
