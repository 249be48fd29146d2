"""Inspects, plans, explains and selects partitions of every type that a table can be partitioned by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.cli.context import ReadFailures
from icepack.cli.output.plans import show_plans
from icepack.cli.output.recommendations import show_recommendations
from icepack.clock import utc_now
from icepack.domain.actions import Compact
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.expression import parse_filter
from icepack.domain.policy import Policy
from icepack.domain.serialization import from_json_text, to_json_text
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.engine.java.expressions import JavaExpressions
from icepack.service.advice import PolicyResolver
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.service import CompactionService

from .lake import Lake
from .test_inspector import check_selections, plan_files

NAN, INFINITY = float("nan"), float("inf")


@dataclass(frozen=True)
class PartitionType:
    """An Iceberg type, its Arrow type in files, and values that each get their own partition."""

    iceberg: str
    arrow: pa.DataType
    values: tuple[Any, ...]
    # The names of its identity partitions in the order of the values; empty if they are not tested.
    paths: tuple[str, ...] = ()
    # A filter that excludes at least the partition of the first value.
    filter: str = ""


def to_ns(text: str, nanoseconds: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9 + nanoseconds


def to_us(text: str, microseconds: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**6 + microseconds


TIMESTAMPS_NS = (
    0,
    1,
    -1,
    to_ns("2024-01-31T23:59:59", 999_999_999),
    to_ns("2024-02-01T00:00:00"),
    to_ns("1677-10-01T00:00:00"),
)
TIMESTAMPS_US = (
    0,
    1,
    -1,
    to_us("2024-01-31T23:59:59", 999_999),
    to_us("2024-02-01T00:00:00"),
    to_us("0001-01-01T00:00:00"),
)
PARTITION_TYPES = {
    kind.iceberg: kind
    for kind in (
        PartitionType("boolean", pa.bool_(), (True, False)),
        PartitionType("int", pa.int32(), (0, -1, 2**31 - 1, -(2**31))),
        PartitionType("long", pa.int64(), (0, -1, 2**63 - 1, -(2**63)), filter="p > 0"),
        PartitionType("float", pa.float32(), (0.0, -0.0, NAN, INFINITY, 1.5)),
        PartitionType("double", pa.float64(), (0.0, -0.0, NAN, -INFINITY, 1e300)),
        PartitionType("decimal(9, 2)", pa.decimal128(9, 2), (Decimal("0.00"), Decimal("-1.25"), Decimal("1234567.89"))),
        PartitionType(
            "decimal(38, 10)", pa.decimal128(38, 10), (Decimal("0E-10"), Decimal("12345678901234567890.0123456789"))
        ),
        PartitionType("date", pa.date32(), (0, -1, 19753, 2_932_896), filter="p > '2000-01-01'"),
        PartitionType(
            "time",
            pa.time64("us"),
            (0, 1, 3_600_000_000, 86_399_999_999),
            ("00:00:00", "00:00:00.000001", "01:00:00", "23:59:59.999999"),
        ),
        PartitionType("timestamp", pa.timestamp("us"), TIMESTAMPS_US, filter="p > '2000-01-01'"),
        PartitionType("timestamptz", pa.timestamp("us", "UTC"), TIMESTAMPS_US, filter="p > '2000-01-01'"),
        PartitionType(
            "timestamp_ns",
            pa.timestamp("ns"),
            TIMESTAMPS_NS,
            (
                "1970-01-01T00:00:00",
                "1970-01-01T00:00:00.000000001",
                "1969-12-31T23:59:59.999999999",
                "2024-01-31T23:59:59.999999999",
                "2024-02-01T00:00:00",
                "1677-10-01T00:00:00",
            ),
            filter="p > '2000-01-01'",
        ),
        PartitionType("timestamptz_ns", pa.timestamp("ns", "UTC"), TIMESTAMPS_NS, filter="p > '2000-01-01'"),
        PartitionType("string", pa.string(), ("", "null", "a/b=c d%20é", "x" * 300)),
        PartitionType("uuid", pa.uuid(), tuple(UUID(int=number).bytes for number in (0, 2**128 - 1, 12345))),
        PartitionType("fixed[4]", pa.binary(4), (b"\0\0\0\0", b"abcd", b"\xff/=\xfe")),
        PartitionType("binary", pa.binary(), (b"", b"\0", b"abc/=")),
    )
}
TIMES = ("year", "month", "day", "hour")
TRANSFORMS = [
    *((kind, "identity") for kind in PARTITION_TYPES),
    *((kind, "void") for kind in ("timestamp_ns", "uuid", "string")),
    *((kind, "bucket[4]") for kind in PARTITION_TYPES if kind not in ("boolean", "float", "double")),
    *((kind, "truncate[3]") for kind in ("int", "long", "decimal(9, 2)", "string", "binary")),
    *((kind, time) for kind in ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns") for time in TIMES),
    *(("date", time) for time in TIMES[:3]),
]


def create_partitioned_table(lake: Lake, kind: PartitionType, transform: str) -> TableId:
    """Creates a table with two files per value and two for null, in the partitions that Iceberg computes."""
    source, table = create_table(lake, kind, None), create_table(lake, kind, transform)
    java_table = lake.java_table(table)
    wrapper = lake.iceberg.data.InternalRecordWrapper(java_table.schema().asStruct())
    key = lake.iceberg.PartitionKey(java_table.spec(), java_table.schema())
    append = java_table.newAppend()
    for number, value in enumerate((*kind.values, None)):
        path = write_file(lake, table, kind, number, value)
        lake.java_table(source).newOverwrite().overwriteByRowFilter(
            lake.iceberg.expressions.Expressions.alwaysTrue()
        ).addFile(data_file(lake, source, path)).commit()
        key.partition(wrapper.wrap(read_only_record(lake, source)))
        append.appendFile(data_file(lake, table, path, key))
        append.appendFile(data_file(lake, table, write_file(lake, table, kind, number, value), key))
    append.commit()
    return table


def create_table(lake: Lake, kind: PartitionType, transform: str | None) -> TableId:
    """Uses Iceberg's Java catalog, because Spark SQL does not have all types."""
    table, jvm = lake.new_table_id("partitioned"), lake.spark.sparkContext._jvm
    types = lake.iceberg.types.Types
    fields = jvm.java.util.ArrayList()
    fields.add(types.NestedField.optional(1, "id", types.LongType.get()))
    fields.add(types.NestedField.optional(2, "p", types.fromPrimitiveString(kind.iceberg)))
    schema = lake.iceberg.Schema(fields)
    spec = add_partition_field(lake.iceberg.PartitionSpec.builderFor(schema), transform).build()
    catalog = lake.spark._jsparkSession.sessionState().catalogManager().catalog("lake").icebergCatalog()
    properties = jvm.java.util.HashMap()
    properties.put("format-version", "3")
    catalog.createTable(lake.iceberg.catalog.TableIdentifier.parse(table.short), schema, spec, properties)
    return table


def add_partition_field(spec: Any, transform: str | None) -> Any:
    if transform is None:
        return spec
    name, _, width = transform.rstrip("]").partition("[")
    if name == "void":
        return spec.alwaysNull("p", "p_void")
    return getattr(spec, name)("p", int(width)) if width else getattr(spec, name)("p")


def write_file(lake: Lake, table: TableId, kind: PartitionType, number: int, value: Any) -> Path:
    """Writes a file with one row."""
    path = lake.table_folder(table) / "data" / f"{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = (("id", pa.int64()), ("p", kind.arrow))
    fields = [
        pa.field(name, arrow, metadata={"PARQUET:field_id": str(field_id)})
        for field_id, (name, arrow) in enumerate(columns, 1)
    ]
    rows = [pa.array([number], pa.int64()), build_array(kind, value)]
    pq.write_table(pa.table(rows, schema=pa.schema(fields)), path)
    return path


def build_array(kind: PartitionType, value: Any) -> pa.Array:
    if pa.types.is_temporal(kind.arrow):
        return pa.array([value], pa.int32() if kind.arrow == pa.date32() else pa.int64()).cast(kind.arrow)
    return pa.array([value], kind.arrow)


def data_file(lake: Lake, table: TableId, path: Path, key: Any = None) -> Any:
    builder = (
        lake.iceberg.DataFiles.builder(lake.java_table(table).spec()).withPath(path.as_uri()).withFormat("parquet")
    )
    builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(1)
    return (builder if key is None else builder.withPartition(key)).build()


def read_only_record(lake: Lake, table: TableId) -> Any:
    return lake.iceberg.data.IcebergGenerics.read(lake.java_table(table)).build().iterator().next()


def build_service(lake: Lake) -> CompactionService:
    return CompactionService(
        discovery=lake.discovery,
        inspector=lake.inspector,
        history=lake.history,
        runner=MaintenanceRunner(lake.dependencies),
        policies=PolicyResolver(base=Policy(), rules=()),
        model=CostModel(),
    )


@pytest.mark.parametrize(("name", "transform"), TRANSFORMS)
def test_every_partition_is_inspected_planned_explained_and_selected(lake: Lake, name: str, transform: str) -> None:
    kind = PARTITION_TYPES[name]
    table = create_partitioned_table(lake, kind, transform)
    status = lake.status(table)
    assert status.data.count == 2 * (len(kind.values) + 1)
    assert len({row.key for row in status.partitions}) == len(status.partitions)
    assert from_json_text(TableStatus, to_json_text(status)) == status
    if transform == "identity":
        assert len(status.partitions) == len(kind.values) + 1
    plan = build_service(lake).plan_compaction(table, Compact(rewrite_all=True))
    assert sum(group.files for group in plan.compaction.groups) == status.data.count
    show_recommendations([plan.advice], ReadFailures(), "table", explain=True)
    show_plans([plan], ReadFailures(), "table", with_files=True)
    check_selections(lake, table)


@pytest.mark.parametrize(
    "kind", [kind for kind in PARTITION_TYPES.values() if kind.paths], ids=lambda kind: kind.iceberg
)
def test_identity_partitions_have_the_names_of_iceberg(lake: Lake, kind: PartitionType) -> None:
    paths = {row.key.path for row in lake.status(create_partitioned_table(lake, kind, "identity")).partitions}
    assert paths == {f"p={quote_plus(path, safe=' :')}" for path in (*kind.paths, "null")}


@pytest.mark.parametrize(
    "kind", [kind for kind in PARTITION_TYPES.values() if kind.filter], ids=lambda kind: kind.iceberg
)
def test_filters_find_the_identity_partitions_that_iceberg_plans(lake: Lake, kind: PartitionType) -> None:
    table = create_partitioned_table(lake, kind, "identity")
    where = parse_filter(kind.filter, utc_now())
    java_table = lake.java_table(table)
    row_filter = JavaExpressions(lake.spark.sparkContext._jvm, java_table.schema()).filter(where)
    chosen = {file.path for file in lake.inspector.files(table, where).files}
    assert plan_files(java_table, row_filter) <= chosen
    assert len(chosen) < len(lake.inspector.files(table).files)
