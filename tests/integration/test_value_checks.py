"""Values are compared before a native rewrite is committed: what differs is not committed, whatever the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.domain.verification import ProofLevel
from icepack.engine.native import compaction, tasks, value_checks
from icepack.engine.verification import rewrite_check
from icepack.errors import EngineFault
from icepack.kernel import input_file
from icepack.kernel import rewrite as kernel_rewrite
from icepack.kernel.executor import work
from icepack.service.maintenance import RunTools
from icepack.service.runs.verifier import Verifier
from icepack.store.backend import open_stores

from .lakes import Lake, files_below

ALL = Compact(rewrite_all=True, delete_file_threshold=1)


@pytest.fixture
def tools(lake: Lake, tmp_path: Path) -> Iterator[RunTools]:
    """With a state database of its own, so that no test trusts what another has seen."""
    stores = open_stores(f"sqlite:///{tmp_path / 'state.db'}")
    yield lake.with_tools(verification=stores.verification)
    stores.close()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel runs where the test can break it; Spark's own workers import it anew."""

    def run_tasks(spark: Any, items: Any, storage: Mapping[str, str], told: Any) -> list[Any]:
        return [work(item, storage, 0) for item in items]

    monkeypatch.setattr(compaction, "run_tasks", run_tasks)


def run(lake: Lake, table: TableId, tools: RunTools, action: Compact = ALL, **request: Any) -> RunRecord:
    return lake.run(table, action, tools=tools, **request)


def ways(record: RunRecord) -> list[str]:
    return [group["engine"] for group in (record.details or {})["groups"]]


def caught(lake: Lake, table: TableId, tools: RunTools, action: Compact = ALL) -> RunRecord:
    """A run whose native rewrite changes values: nothing of it is committed and Spark's procedure is exact."""
    before = lake.main(table)
    record = run(lake, table, tools, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert set(ways(record)) == {"spark"}
    assert lake.main(table) == before
    assert all("icepack.engine" not in summary for summary in lake.summaries(record))
    assert not [path for path in files_below(lake.place(table)) if "icepack-" in path.name], "the outputs are gone"
    proof = record.value_proof
    assert proof is not None
    assert proof.mismatch is not None, record.details
    assert "native rewrite is off" in record.message
    assert tools.verification is not None
    entry = tools.verification.native_disabled(table)
    assert entry is not None
    assert entry.mismatch == proof.mismatch
    return record


def stays_off(lake: Lake, table: TableId, tools: RunTools) -> None:
    record = run(lake, table, tools, replace(ALL, min_input_files=1))
    assert record.state is RunState.SUCCEEDED, record.message
    assert set(ways(record)) == {"spark"}
    assert "switched off" in (record.details or {})["groups"][0]["why"]


class TestRepairsSwitchedOff:
    """The three defects that changed values silently, put back: the check of a class's first group finds each."""

    def test_partition_constants_that_are_not_used(
        self, lake: Lake, tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = hive_import(lake, tmp_path)
        make = tasks._input
        monkeypatch.setattr(tasks, "_input", lambda *given: replace(make(*given), constants={}))
        record = caught(lake, table, tools)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        # Spark fills the constant in on both sides; only the manifest shows that the files hold nulls.
        assert "p" in record.value_proof.mismatch.columns
        monkeypatch.undo()
        stays_off(lake, table, tools)

    def test_nested_defaults_that_are_not_used(
        self, lake: Lake, tools: RunTools, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = with_default_in_a_list(lake)
        make = tasks.group_tasks

        def without_defaults(*given: Any, **named: Any) -> list[Any]:
            return [
                replace(item, task=replace(item.task, schema=stripped(item.task.schema)))
                for item in make(*given, **named)
            ]

        monkeypatch.setattr(compaction, "group_tasks", without_defaults)
        record = caught(lake, table, tools)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert "l" in record.value_proof.mismatch.columns

    def test_leaves_that_are_miscounted(
        self, lake: Lake, tools: RunTools, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = run(lake, with_fixed_size_lists(lake), tools)
        assert ways(record) == ["native"], "without the Arrow schema these are lists like any other"
        table = with_fixed_size_lists(lake)
        monkeypatch.setattr(input_file, "metadata_of", metadata_with_arrow_schema)
        monkeypatch.setattr(input_file, "check_columns", lambda *given: None)
        caught(lake, table, tools)


def metadata_with_arrow_schema(footer: bytes, schema: Any) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(footer + len(footer).to_bytes(4, "little") + b"PAR1"))


class TestAnyDifference:
    """Whatever the kernel may do wrong one day, not only what it once did."""

    @pytest.mark.parametrize(
        ("name", "change", "columns"),
        [
            ("a value", lambda column: pc.if_else(pc.equal(column, 7), pa.scalar(8, column.type), column), {"id"}),
            ("a null", lambda column: pc.if_else(pc.equal(column, 7), pa.scalar(None, column.type), column), {"id"}),
            (
                "the order of one column",
                lambda column: column.take(pa.array(range(len(column) - 1, -1, -1))),
                {"(whole rows)"},
            ),
        ],
    )
    def test_is_found(
        self,
        lake: Lake,
        tools: RunTools,
        in_this_process: None,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        change: Callable[[Any], Any],
        columns: set[str],
    ) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.numbers(table, files=3)
        read = kernel_rewrite.Rows.columns

        def changed(rows: Any, selections: Any, wanted: Any, **named: Any) -> Any:
            found = read(rows, selections, wanted, **named)
            return [
                pa.chunked_array([change(column.combine_chunks())]) if field.name == "id" else column
                for field, column in zip(wanted, found, strict=True)
            ]

        monkeypatch.setattr(kernel_rewrite.Rows, "columns", changed)
        record = caught(lake, table, tools)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert columns <= set(record.value_proof.mismatch.columns), name

    def test_a_bound_that_loses_rows_is_found(
        self, lake: Lake, tools: RunTools, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.numbers(table, files=3)
        request = compaction.commit_request

        def narrow(*given: Any, **named: Any) -> Any:
            removed, added = request(*given, **named)
            return removed, [{**file, "bounds": {**file["bounds"], "2": ["dg==", "dg=="]}} for file in added]

        monkeypatch.setattr(compaction, "commit_request", narrow)
        record = caught(lake, table, tools)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        found = record.value_proof.mismatch.differences
        assert [(each.column, each.measure) for each in found] == [("v", "rows_outside_bounds")]

    def test_row_ids_that_change_are_found(
        self, lake: Lake, tools: RunTools, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING", version=3)
        lake.numbers(table, files=3)
        monkeypatch.setattr(input_file.Source, "_with_lineage", lambda self, column, piece, number: column)
        record = caught(lake, table, tools)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert {"_row_id", "_last_updated_sequence_number"} <= set(record.value_proof.mismatch.columns)


class TestTrust:
    def test_is_earned_once_for_a_class(self, lake: Lake, tools: RunTools) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.numbers(table, files=3)
        first = run(lake, table, tools).value_proof
        assert first is not None
        assert (first.groups, first.groups_compared, dict(first.reasons)) == (1, 1, {"new_class": 1})
        assert first.sentence == "1 group, rows counted in all, values compared in 1"
        assert first.rows_compared == 30
        # The output of the first run is a file of another writer, which is another class.
        lake.numbers(table, files=2, start=100)
        assert (again := run(lake, table, tools).value_proof) is not None
        assert again.groups_compared == 1
        lake.numbers(table, files=2, start=200)
        third = run(lake, table, tools).value_proof
        assert third is not None
        assert (third.groups, third.groups_compared) == (1, 0)

    def test_is_earned_again_by_a_new_kernel(
        self, lake: Lake, tools: RunTools, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING")
        for start in (0, 100, 200):
            lake.numbers(table, files=2, start=start)
            run(lake, table, tools)
        monkeypatch.setattr(value_checks, "kernel_version", lambda: "another")
        lake.numbers(table, files=2, start=300)
        proof = run(lake, table, tools).value_proof
        assert proof is not None
        assert proof.groups_compared == 1

    def test_is_refreshed_once_a_week(self, lake: Lake, tools: RunTools) -> None:
        table = lake.create("id BIGINT, v STRING")
        for start in (0, 100, 200):
            lake.numbers(table, files=2, start=start)
            run(lake, table, tools)
        lake.numbers(table, files=2, start=300)
        later = replace(tools, clock=lambda: datetime.now(UTC) + timedelta(days=8))
        proof = run(lake, table, later).value_proof
        assert proof is not None
        assert dict(proof.reasons) == {"overdue": 1}

    def test_levels(self, lake: Lake, tools: RunTools) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' || id, CAST(id % 3 AS INT) FROM range(0, 30)")
        head = lake.head(table)
        for level, compared in ((ProofLevel.COUNT, 0), (ProofLevel.FULL, 3)):
            proof = run(lake, table, tools, replace(ALL, proof=level)).value_proof
            assert proof is not None
            assert (proof.level, proof.groups, proof.groups_compared) == (level, 3, compared)
            lake.java(table).manageSnapshots().rollbackTo(head).commit()
        by_spark = run(lake, table, tools, replace(ALL, proof=ProofLevel.FULL, engine=RewriteEngine.SPARK))
        assert "values" in [proof.method for proof in by_spark.proofs]
        assert by_spark.value_proof is not None
        assert by_spark.value_proof.commits_compared == 1


class TestTypesThatSparkDoesNotRead:
    @pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns"])
    def test_are_compared_by_the_generic_reader(
        self,
        lake: Lake,
        tools: RunTools,
        in_this_process: None,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        table = with_column(lake, kind)
        head = lake.head(table)
        record = run(lake, table, tools)
        assert record.state is RunState.SUCCEEDED, record.message
        assert ways(record) == ["native"]
        assert record.value_proof is not None
        assert record.value_proof.groups_compared == 1
        lake.java(table).manageSnapshots().rollbackTo(head).commit()
        read = kernel_rewrite.Rows.columns

        def shifted(rows: Any, selections: Any, wanted: Any, **named: Any) -> Any:
            found = read(rows, selections, wanted, **named)
            return [column.take(pa.array([1, 0, *range(2, len(column))])) if field.name == "t" else column
                    for field, column in zip(wanted, found, strict=True)]  # fmt: skip

        monkeypatch.setattr(kernel_rewrite.Rows, "columns", shifted)
        record = run(lake, table, replace(tools, verification=None))
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert lake.head(table) == head, "neither way is exact, so nothing was committed"


class TestFailures:
    def test_an_unexpected_error_sends_one_group_to_spark(
        self, lake: Lake, tools: RunTools, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' || id, CAST(id % 3 AS INT) FROM range(0, 30)")
        before = lake.main(table)
        started = kernel_rewrite._Rewrite.run

        def fail(self: Any) -> Any:
            if "p=1" in self._task.inputs[0].path:
                raise ZeroDivisionError("made up")
            return started(self)

        monkeypatch.setattr(kernel_rewrite._Rewrite, "run", fail)
        record = run(lake, table, tools)
        assert record.state is RunState.SUCCEEDED, record.message
        assert sorted(ways(record)) == ["native", "native", "spark"]
        assert lake.main(table) == before
        assert record.value_proof is not None
        assert [failure.error for failure in record.value_proof.failures] == ["ZeroDivisionError: made up"]

    def test_a_group_that_cannot_be_compared_goes_to_spark(
        self, lake: Lake, tools: RunTools, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' || id, CAST(id % 3 AS INT) FROM range(0, 30)")
        before = lake.main(table)
        compare = rewrite_check.RewriteCheck.compare

        def fail(self: Any, paths: Any, added: Any) -> Any:
            if any("p=1" in path for path in paths):
                raise EngineFault("Iceberg does not read this.")
            return compare(self, paths, added)

        monkeypatch.setattr(rewrite_check.RewriteCheck, "compare", fail)
        record = run(lake, table, tools, replace(ALL, proof=ProofLevel.FULL))
        assert record.state is RunState.SUCCEEDED, record.message
        assert lake.main(table) == before
        assert sorted(ways(record)) == ["native", "native", "spark"]
        assert record.value_proof is not None
        assert record.value_proof.mismatch is None
        assert (record.value_proof.groups_compared, dict(record.value_proof.reasons)) == (2, {"full": 2})
        assert tools.verification is not None
        assert tools.verification.native_disabled(table) is None

    def test_a_damaged_page_is_left_alone_by_both(self, lake: Lake, tools: RunTools) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        body = pa.table({"id": range(2000), "v": [f"v{number}" for number in range(2000)]})
        for part in (0, 1):
            for _ in range(2):
                add_checksummed(lake, table, body, part)
        (broken, *_) = [file["file_path"] for file in lake.metadata(table, "files") if "p=0" in str(file["file_path"])]
        damage(Path(broken.removeprefix("file:").replace("//", "/")))
        files = {file["file_path"] for file in lake.metadata(table, "files") if "p=0" in str(file["file_path"])}
        record = run(lake, table, tools)
        assert record.state is RunState.FAILED
        assert Path(broken).name in record.message
        assert "checksum" in record.message
        left = {file["file_path"] for file in lake.metadata(table, "files")}
        assert files <= left, "the damaged partition is as it was"
        assert len(left) == 3, "the other one was compacted"


class TestVerify:
    def test_commits_of_the_past_are_compared(self, lake: Lake, tools: RunTools) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.numbers(table, files=3)
        run(lake, table, tools)
        lake.numbers(table, files=2, start=100)
        run(lake, table, tools)
        found = list(verifier(lake, tools).compare_commits(table))
        assert [(each.is_equal, each.rows_before) for each in found] == [(True, 50), (True, 30)]

    def test_different_snapshots_differ_by_column(self, lake: Lake, tools: RunTools) -> None:
        table = lake.create("id BIGINT, v STRING, d DOUBLE")
        lake.append(table, "VALUES (1, 'a', 0.0D), (2, 'b', DOUBLE('NaN'))")
        first = lake.head(table)
        lake.sql(f"INSERT OVERWRITE {table} VALUES (1, 'a', -0.0D), (2, 'b', DOUBLE('NaN'))")
        second = lake.head(table)
        found = verifier(lake, tools).compare(table, first, second)
        assert not found.is_equal
        assert {difference.column for difference in found.differences} == {"d", "(whole rows)"}
        assert verifier(lake, tools).compare(table, first, first).is_equal
        same = verifier(lake, tools).compare(table, second, second, all_files=True)
        assert (same.is_equal, same.rows_before) == (True, 2)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("named_struct('a', 1, 'b', null)", "named_struct('a', null, 'b', 1)"),
            ("named_struct('a', null, 'b', null)", "null"),
            ("named_struct('a', 1, 'b', null)", "named_struct('a', 1, 'b', 42)"),
        ],
    )
    def test_nulls_inside_structs_are_told_apart(self, lake: Lake, tools: RunTools, one: str, other: str) -> None:
        differ(lake, tools, "STRUCT<a: INT, b: INT>", one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("array(1, null)", "array(null, 1)"),
            ("array()", "null"),
            ("array(null)", "array()"),
            ("array(1, 2)", "array(2, 1)"),
        ],
    )
    def test_nulls_and_order_inside_lists_are_told_apart(
        self, lake: Lake, tools: RunTools, one: str, other: str
    ) -> None:
        differ(lake, tools, "ARRAY<INT>", one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [("map('a', 1)", "map('a', null)"), ("map()", "null"), ("map('a', 1, 'b', 2)", "map('a', 2, 'b', 1)")],
    )
    def test_entries_of_maps_are_told_apart(self, lake: Lake, tools: RunTools, one: str, other: str) -> None:
        differ(lake, tools, "MAP<STRING, INT>", one, other)

    def test_a_failed_check_is_repeated(
        self, lake: Lake, tools: RunTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = hive_import(lake, tmp_path)
        make = tasks._input
        monkeypatch.setattr(tasks, "_input", lambda *given: replace(make(*given), constants={}))
        caught(lake, table, tools)
        assert not verifier(lake, tools).repeat(table).is_equal
        monkeypatch.undo()
        head = lake.head(table)
        assert verifier(lake, tools).repeat(table).is_equal
        assert lake.head(table) == head
        assert not [path for path in files_below(lake.place(table)) if "icepack-verify" in path.name]


def verifier(lake: Lake, tools: RunTools) -> Verifier:
    assert tools.verification is not None
    return Verifier(engine=tools.engine, ledger=tools.ledger, history=tools.history, verification=tools.verification)


def differ(lake: Lake, tools: RunTools, kind: str, one: str, other: str) -> None:
    table = lake.create(f"id BIGINT, c {kind}")
    heads = []
    for value in (one, other):
        lake.sql(f"INSERT OVERWRITE {table} SELECT 1, CAST({value} AS {kind})")
        heads.append(lake.head(table))
    assert not verifier(lake, tools).compare(table, *heads).is_equal


def hive_import(lake: Lake, tmp_path: Path) -> TableId:
    """A folder partitioned as Hive does it: the partition's column is in no file."""
    folder = tmp_path / f"import-{uuid4()}"
    for value in ("x", "y"):
        for number in range(2):
            path = folder / f"p={value}" / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": pa.array(range(number * 5, number * 5 + 5), pa.int64())}), path)
    table = lake.create("id BIGINT, p STRING", partitioned_by="p")
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{folder}`')")
    return table


def with_default_in_a_list(lake: Lake) -> TableId:
    table = lake.create("id BIGINT, l ARRAY<STRUCT<a: INT>>", version=3)
    for start in (0, 10):
        lake.append(table, f"SELECT id, array(named_struct('a', CAST(id AS INT))) FROM range({start}, {start + 5})")
    types, literals = lake.iceberg.types.Types, lake.iceberg.expressions.Expressions
    update = lake.java(table).updateSchema()
    update.addColumn("l", "b", types.IntegerType.get(), "", literals.lit(5)).commit()
    lake.sql(f"REFRESH TABLE {table}")
    return table


def stripped(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: stripped(value) for key, value in schema.items() if key != "initial-default"}
    return [stripped(item) for item in schema] if isinstance(schema, list) else schema


def with_fixed_size_lists(lake: Lake) -> TableId:
    """The table has no column for the lists; the columns behind them took their neighbour's values."""
    inside = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.int32())])
    schema = pa.schema([("l", pa.list_(inside, 2)), ("a", pa.int32()), ("b", pa.int32()), ("c", pa.int32())])
    table = lake.create("b INT, c INT")
    for _ in range(2):
        rows = [{"l": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "a": 1, "b": 10, "c": 7}] * 5
        add_by_name(lake, table, pa.Table.from_pylist(rows, schema=schema))
    return table


def with_column(lake: Lake, kind: str) -> TableId:
    arrow = {"time": pa.time64("us"), "timestamp_ns": pa.timestamp("ns"), "timestamptz_ns": pa.timestamp("ns", "UTC")}
    types = lake.iceberg.types.Types
    java = {
        "time": types.TimeType.get(),
        "timestamp_ns": types.TimestampNanoType.withoutZone(),
        "timestamptz_ns": types.TimestampNanoType.withZone(),
    }
    table = lake.create("id BIGINT", version=3)
    lake.java(table).updateSchema().addColumn("t", java[kind]).commit()
    for start in (0, 10):
        body = {
            "id": pa.array(range(start, start + 5), pa.int64()),
            "t": pa.array(range(start, start + 5), arrow[kind]),
        }
        add_by_name(lake, table, pa.table(body))
    return table


def add_by_name(lake: Lake, table: TableId, rows: pa.Table, partition: str = "", **options: Any) -> None:
    """Appends a file without field ids, found by the table's name mapping."""
    java = lake.java(table)
    mapping = lake.iceberg.mapping.MappingUtil.create(java.schema())
    said = lake.iceberg.mapping.NameMappingParser.toJson(mapping)
    java.updateProperties().set("schema.name-mapping.default", said).commit()
    path = lake.place(table) / "data" / partition / f"{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    file = java.io().newInputFile(f"file:{path}")
    metrics = lake.iceberg.parquet.ParquetUtil.fileMetrics(file, lake.iceberg.MetricsConfig.forTable(java), mapping)
    builder = lake.iceberg.DataFiles.builder(java.spec()).withInputFile(file).withMetrics(metrics).withFormat("parquet")
    if partition:
        builder.withPartitionPath(partition)
    java.newAppend().appendFile(builder.build()).commit()


def add_checksummed(lake: Lake, table: TableId, rows: pa.Table, part: int) -> None:
    rows = rows.append_column("p", pa.array([part] * len(rows), pa.int32()))
    add_by_name(lake, table, rows, f"p={part}", write_page_checksum=True, use_dictionary=False, compression="none")


def damage(path: Path) -> None:
    """Turns one byte in the middle of a column's values over."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b"v1000")
    raw[at + 1] ^= 0xFF
    path.write_bytes(raw)
