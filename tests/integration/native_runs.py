"""Runs the native rewrite in tests, and inspects its data files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.domain.actions import Compact
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.native import compaction
from icepack.kernel.executor import TaskResult

from .lake import Lake, list_files, read_rows, to_local_path

REWRITE_ALL = Compact(rewrite_all=True)


def rewrite_natively(lake: Lake, table: TableId, action: Compact = REWRITE_ALL) -> RunRecord:
    """Compacts a table, and checks that all groups were rewritten natively and that no row changed."""
    before = lake.main_rows(table)
    record = lake.run(table, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert [group["engine"] for group in group_details(record)] == ["native"] * len(group_details(record)), (
        record.details
    )
    assert record.commits
    assert all(summary["icepack.engine"] == "native" for summary in lake.summaries(record))
    assert all(proof.holds for proof in record.proofs)
    assert lake.main_rows(table) == before
    return record


def group_details(record: RunRecord) -> list[dict[str, Any]]:
    return [dict(group) for group in (record.details or {})["groups"]]


def list_data_files(lake: Lake, table: TableId) -> list[Path]:
    """Lists the live data files in the order in which they were planned."""
    return sorted(
        to_local_path(row["file_path"]) for row in lake.sql(f"SELECT file_path FROM {table}.data_files").collect()
    )


def list_deletes(lake: Lake, table: TableId) -> list[dict[str, Any]]:
    return [row for row in lake.metadata(table, "files") if row["content"] != 0]


def read_with_lineage(lake: Lake, table: TableId) -> list[str]:
    return read_rows(lake.sql(f"SELECT *, _row_id, _last_updated_sequence_number FROM {table}"))


def add_files(lake: Lake, table: TableId, rows: pa.Table) -> None:
    """Imports a Parquet file without field ids."""
    folder = lake.folder / f"import-{table.name}"
    folder.mkdir()
    pq.write_table(rows, folder / "part.parquet", store_schema=False)
    lake.sql(f"CALL lake.system.add_files('{table.short}', '`parquet`.`file://{folder}`')")


def read_field_ids(path: Path) -> list[tuple[str, Any]]:
    def walk(field: pa.Field, name: str) -> Iterator[tuple[str, Any]]:
        yield name, (field.metadata or {}).get(b"PARQUET:field_id")
        for index in range(field.type.num_fields):
            child = field.type.field(index)
            yield from walk(child, f"{name}.{child.name}")

    return [pair for field in pq.read_schema(path) for pair in walk(field, field.name)]


class ConcurrentChange:
    """Makes a change after the files were rewritten and before they are committed, for the given number of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object], times: int = 1) -> None:
        self.done = 0
        self.outputs: list[str] = []
        run_tasks = compaction.run_tasks

        def run_and_change(*args: Any) -> list[TaskResult]:
            results = run_tasks(*args)
            self.outputs += [file.path for result in results if result.written for file in result.written.files]
            if self.done < times:
                self.done += 1
                change()
            return results

        monkeypatch.setattr(compaction, "run_tasks", run_and_change)


def rows_with_ids(*ids: int) -> list[str]:
    return sorted(repr((id, f"v{id}")) for id in ids)


def unreferenced_files(lake: Lake, table: TableId) -> set[Path]:
    """The files in the data folder that no snapshot references."""
    known = {to_local_path(row["file_path"]) for row in lake.metadata(table, "all_files")}
    return list_files(lake.table_folder(table) / "data") - known


def create_two_groups(lake: Lake) -> TableId:
    """Creates a table with two groups: ids below 100, and ids from 100."""
    table = lake.create(partitioned_by="truncate(100, id)")
    for _ in range(2):
        lake.append(table, "SELECT id, 'v' || id FROM range(0, 4)")
        lake.append(table, "SELECT id, 'v' || id FROM range(100, 104)")
    return table
