"""Runs compactions whose values are compared, and checks what happens after a mismatch."""

from __future__ import annotations

from typing import Any

from icepack.domain.actions import Compact
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.service.runs.request import RunDependencies

from .lake import Lake, list_files

REWRITE_ALL = Compact(rewrite_all=True, delete_file_threshold=1)


def run(
    lake: Lake, table: TableId, dependencies: RunDependencies, action: Compact = REWRITE_ALL, **request: Any
) -> RunRecord:
    return lake.run(table, action, dependencies=dependencies, **request)


def get_engines(record: RunRecord) -> list[str]:
    return [group["engine"] for group in (record.details or {})["groups"]]


def run_with_mismatch(
    lake: Lake, table: TableId, dependencies: RunDependencies, action: Compact = REWRITE_ALL
) -> RunRecord:
    """Runs a native rewrite that changes values, and checks that Spark rewrites the files instead."""
    before = lake.main_rows(table)
    record = run(lake, table, dependencies, action)
    assert record.state is RunState.SUCCEEDED, record.message
    assert set(get_engines(record)) == {"spark"}
    assert lake.main_rows(table) == before
    assert all("icepack.engine" not in summary for summary in lake.summaries(record))
    assert not [path for path in list_files(lake.table_folder(table)) if "icepack-" in path.name], (
        "the outputs are deleted"
    )
    proof = record.value_proof
    assert proof is not None
    assert proof.mismatch is not None, record.details
    assert "native rewrite is off" in record.message
    assert dependencies.verification is not None
    entry = dependencies.verification.native_disabled(table)
    assert entry is not None
    assert entry.mismatch == proof.mismatch
    return record
