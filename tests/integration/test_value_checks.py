"""The values of a native rewrite are compared before the commit, and a rewrite that differs is not committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import RewriteEngine
from icepack.domain.run import RunState
from icepack.domain.table import TableId
from icepack.domain.verification import ProofLevel
from icepack.engine.native import compaction, tasks, value_checks
from icepack.engine.verification import rewrite_check
from icepack.errors import EngineFault
from icepack.kernel import file_projection, input_file
from icepack.kernel import rewrite as kernel_rewrite
from icepack.kernel.executor import run_task
from icepack.service.runs.request import RunDependencies

from .imported_tables import (
    append_with_checksums,
    create_table_with_column,
    create_table_with_fixed_size_lists,
    create_table_with_nested_default,
    flip_byte,
    import_hive_folder,
)
from .lake import Lake
from .verified_runs import REWRITE_ALL, get_engines, run, run_with_mismatch


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the kernel in the test process, where tests can patch it; Spark's workers import it again."""

    def run_tasks(spark: Any, items: Any, storage: Mapping[str, str], report: Any) -> list[Any]:
        return [run_task(item, storage, 0) for item in items]

    monkeypatch.setattr(compaction, "run_tasks", run_tasks)


def check_stays_disabled(lake: Lake, table: TableId, dependencies: RunDependencies) -> None:
    record = run(lake, table, dependencies, replace(REWRITE_ALL, min_input_files=1))
    assert record.state is RunState.SUCCEEDED, record.message
    assert set(get_engines(record)) == {"spark"}
    assert "is disabled" in (record.details or {})["groups"][0]["why"]


class TestPastDefects:
    """Brings back three defects that changed values silently; the value check finds each of them."""

    def test_ignored_partition_constants_are_found(
        self, lake: Lake, dependencies: RunDependencies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = import_hive_folder(lake, tmp_path)
        build = tasks._input_file
        monkeypatch.setattr(tasks, "_input_file", lambda *args: replace(build(*args), constants={}))
        record = run_with_mismatch(lake, table, dependencies)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        # Spark fills in the constant when it reads either file; only the manifest shows that the files have nulls.
        assert "p" in record.value_proof.mismatch.columns
        monkeypatch.undo()
        check_stays_disabled(lake, table, dependencies)

    def test_ignored_nested_defaults_are_found(
        self, lake: Lake, dependencies: RunDependencies, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = create_table_with_nested_default(lake)
        build_tasks = tasks.build_tasks

        def build_without_defaults(*args: Any, **kwargs: Any) -> list[Any]:
            return [
                replace(item, task=replace(item.task, schema=remove_defaults(item.task.schema)))
                for item in build_tasks(*args, **kwargs)
            ]

        monkeypatch.setattr(compaction, "build_tasks", build_without_defaults)
        record = run_with_mismatch(lake, table, dependencies)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert "l" in record.value_proof.mismatch.columns

    def test_miscounted_leaf_columns_are_found(
        self, lake: Lake, dependencies: RunDependencies, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        record = run(lake, create_table_with_fixed_size_lists(lake), dependencies)
        assert get_engines(record) == ["native"], "without the Arrow schema these are lists like any other"
        table = create_table_with_fixed_size_lists(lake)
        monkeypatch.setattr(input_file, "read_pyarrow_metadata", metadata_with_arrow_schema)
        monkeypatch.setattr(file_projection, "check_columns", lambda *args: None)
        run_with_mismatch(lake, table, dependencies)


def metadata_with_arrow_schema(footer: bytes, schema: Any) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(footer + len(footer).to_bytes(4, "little") + b"PAR1"))


class TestDifferences:
    """Differences of any kind are found, whatever their cause."""

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
    def test_a_difference_in_one_column_is_found(
        self,
        lake: Lake,
        dependencies: RunDependencies,
        in_this_process: None,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        change: Callable[[Any], Any],
        columns: set[str],
    ) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.append_numbers(table, files=3)
        read = kernel_rewrite.LiveRows.read_columns

        def read_and_change(rows: Any, selections: Any, fields: Any, **kwargs: Any) -> Any:
            found = read(rows, selections, fields, **kwargs)
            return [
                pa.chunked_array([change(column.combine_chunks())]) if field.name == "id" else column
                for field, column in zip(fields, found, strict=True)
            ]

        monkeypatch.setattr(kernel_rewrite.LiveRows, "read_columns", read_and_change)
        record = run_with_mismatch(lake, table, dependencies)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert columns <= set(record.value_proof.mismatch.columns), name

    def test_a_bound_that_excludes_rows_is_found(
        self, lake: Lake, dependencies: RunDependencies, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.append_numbers(table, files=3)
        build_request = compaction.build_commit_request

        def build_with_narrow_bounds(*args: Any, **kwargs: Any) -> Any:
            removed, added = build_request(*args, **kwargs)
            return removed, [{**file, "bounds": {**file["bounds"], "2": ["dg==", "dg=="]}} for file in added]

        monkeypatch.setattr(compaction, "build_commit_request", build_with_narrow_bounds)
        record = run_with_mismatch(lake, table, dependencies)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        found = record.value_proof.mismatch.differences
        assert [(difference.column, difference.measure) for difference in found] == [("v", "rows_outside_bounds")]

    def test_changed_row_ids_are_found(
        self, lake: Lake, dependencies: RunDependencies, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING", version=3)
        lake.append_numbers(table, files=3)
        monkeypatch.setattr(
            input_file.InputFileReader, "_fill_lineage", lambda self, column, row_slice, field_id: column
        )
        record = run_with_mismatch(lake, table, dependencies)
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert {"_row_id", "_last_updated_sequence_number"} <= set(record.value_proof.mismatch.columns)


class TestTrustedClasses:
    def test_a_class_is_compared_once(self, lake: Lake, dependencies: RunDependencies) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.append_numbers(table, files=3)
        first = run(lake, table, dependencies).value_proof
        assert first is not None
        assert (first.groups, first.groups_compared, dict(first.reasons)) == (1, 1, {"new_class": 1})
        assert first.sentence == "1 group, rows counted in all, values compared in 1"
        assert first.rows_compared == 30
        # The output of the first run has another writer, and therefore another class.
        lake.append_numbers(table, files=2, start=100)
        assert (second := run(lake, table, dependencies).value_proof) is not None
        assert second.groups_compared == 1
        lake.append_numbers(table, files=2, start=200)
        third = run(lake, table, dependencies).value_proof
        assert third is not None
        assert (third.groups, third.groups_compared) == (1, 0)

    def test_a_class_is_compared_again_with_a_new_kernel(
        self, lake: Lake, dependencies: RunDependencies, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING")
        for start in (0, 100, 200):
            lake.append_numbers(table, files=2, start=start)
            run(lake, table, dependencies)
        monkeypatch.setattr(value_checks, "kernel_version", lambda: "another")
        lake.append_numbers(table, files=2, start=300)
        proof = run(lake, table, dependencies).value_proof
        assert proof is not None
        assert proof.groups_compared == 1

    def test_a_trusted_class_is_compared_once_a_week(self, lake: Lake, dependencies: RunDependencies) -> None:
        table = lake.create("id BIGINT, v STRING")
        for start in (0, 100, 200):
            lake.append_numbers(table, files=2, start=start)
            run(lake, table, dependencies)
        lake.append_numbers(table, files=2, start=300)
        later = replace(dependencies, clock=lambda: datetime.now(UTC) + timedelta(days=8))
        proof = run(lake, table, later).value_proof
        assert proof is not None
        assert dict(proof.reasons) == {"overdue": 1}

    def test_the_level_decides_how_many_groups_are_compared(self, lake: Lake, dependencies: RunDependencies) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' || id, CAST(id % 3 AS INT) FROM range(0, 30)")
        head = lake.current_snapshot_id(table)
        for level, compared in ((ProofLevel.COUNT, 0), (ProofLevel.FULL, 3)):
            proof = run(lake, table, dependencies, replace(REWRITE_ALL, proof=level)).value_proof
            assert proof is not None
            assert (proof.level, proof.groups, proof.groups_compared) == (level, 3, compared)
            lake.java_table(table).manageSnapshots().rollbackTo(head).commit()
        by_spark = run(
            lake, table, dependencies, replace(REWRITE_ALL, proof=ProofLevel.FULL, engine=RewriteEngine.SPARK)
        )
        assert "values" in [proof.method for proof in by_spark.proofs]
        assert by_spark.value_proof is not None
        assert by_spark.value_proof.commits_compared == 1


class TestTypesUnsupportedBySpark:
    @pytest.mark.parametrize("kind", ["time", "timestamp_ns", "timestamptz_ns"])
    def test_they_are_compared_with_the_generic_reader(
        self,
        lake: Lake,
        dependencies: RunDependencies,
        in_this_process: None,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        table = create_table_with_column(lake, kind)
        head = lake.current_snapshot_id(table)
        record = run(lake, table, dependencies)
        assert record.state is RunState.SUCCEEDED, record.message
        assert get_engines(record) == ["native"]
        assert record.value_proof is not None
        assert record.value_proof.groups_compared == 1
        lake.java_table(table).manageSnapshots().rollbackTo(head).commit()
        read = kernel_rewrite.LiveRows.read_columns

        def read_and_swap(rows: Any, selections: Any, fields: Any, **kwargs: Any) -> Any:
            found = read(rows, selections, fields, **kwargs)
            return [column.take(pa.array([1, 0, *range(2, len(column))])) if field.name == "t" else column
                    for field, column in zip(fields, found, strict=True)]  # fmt: skip

        monkeypatch.setattr(kernel_rewrite.LiveRows, "read_columns", read_and_swap)
        record = run(lake, table, replace(dependencies, verification=None))
        assert record.value_proof is not None
        assert record.value_proof.mismatch is not None
        assert lake.current_snapshot_id(table) == head, "Spark cannot rewrite it either"


class TestFailures:
    def test_a_group_with_an_unexpected_error_falls_back_to_spark(
        self, lake: Lake, dependencies: RunDependencies, in_this_process: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' || id, CAST(id % 3 AS INT) FROM range(0, 30)")
        before = lake.main_rows(table)
        original_run = kernel_rewrite._TaskRewrite.run

        def fail(self: Any) -> Any:
            if "p=1" in self._task.inputs[0].path:
                raise ZeroDivisionError("simulated")
            return original_run(self)

        monkeypatch.setattr(kernel_rewrite._TaskRewrite, "run", fail)
        record = run(lake, table, dependencies)
        assert record.state is RunState.SUCCEEDED, record.message
        assert sorted(get_engines(record)) == ["native", "native", "spark"]
        assert lake.main_rows(table) == before
        assert record.value_proof is not None
        assert [failure.error for failure in record.value_proof.failures] == ["ZeroDivisionError: simulated"]

    def test_a_group_that_cannot_be_compared_falls_back_to_spark(
        self, lake: Lake, dependencies: RunDependencies, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        for _ in range(2):
            lake.append(table, "SELECT id, 'v' || id, CAST(id % 3 AS INT) FROM range(0, 30)")
        before = lake.main_rows(table)
        compare = rewrite_check.RewriteCheck.compare

        def fail(self: Any, paths: Any, added: Any) -> Any:
            if any("p=1" in path for path in paths):
                raise EngineFault("Iceberg cannot read this.")
            return compare(self, paths, added)

        monkeypatch.setattr(rewrite_check.RewriteCheck, "compare", fail)
        record = run(lake, table, dependencies, replace(REWRITE_ALL, proof=ProofLevel.FULL))
        assert record.state is RunState.SUCCEEDED, record.message
        assert lake.main_rows(table) == before
        assert sorted(get_engines(record)) == ["native", "native", "spark"]
        assert record.value_proof is not None
        assert record.value_proof.mismatch is None
        assert (record.value_proof.groups_compared, dict(record.value_proof.reasons)) == (2, {"full": 2})
        assert dependencies.verification is not None
        assert dependencies.verification.native_disabled(table) is None

    def test_a_group_with_a_damaged_page_is_not_rewritten(self, lake: Lake, dependencies: RunDependencies) -> None:
        table = lake.create("id BIGINT, v STRING, p INT", partitioned_by="p")
        body = pa.table({"id": range(2000), "v": [f"v{number}" for number in range(2000)]})
        for part in (0, 1):
            for _ in range(2):
                append_with_checksums(lake, table, body, part)
        (damaged, *_) = [file["file_path"] for file in lake.metadata(table, "files") if "p=0" in str(file["file_path"])]
        flip_byte(Path(damaged.removeprefix("file:").replace("//", "/")))
        files = {file["file_path"] for file in lake.metadata(table, "files") if "p=0" in str(file["file_path"])}
        record = run(lake, table, dependencies)
        assert record.state is RunState.FAILED
        assert Path(damaged).name in record.message
        assert "checksum" in record.message
        remaining = {file["file_path"] for file in lake.metadata(table, "files")}
        assert files <= remaining, "the damaged partition is unchanged"
        assert len(remaining) == 3, "the other partition was compacted"


def remove_defaults(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: remove_defaults(value) for key, value in schema.items() if key != "initial-default"}
    return [remove_defaults(item) for item in schema] if isinstance(schema, list) else schema
