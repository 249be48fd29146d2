"""Snapshots of a table can be compared by value, and a failed value check can be repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icepack.engine.native import tasks
from icepack.service.runs.request import RunDependencies
from icepack.service.runs.verifier import Verifier

from .imported_tables import import_hive_folder
from .lake import Lake, list_files
from .verified_runs import run, run_with_mismatch


class TestVerify:
    def test_earlier_commits_are_compared(self, lake: Lake, dependencies: RunDependencies) -> None:
        table = lake.create("id BIGINT, v STRING")
        lake.append_numbers(table, files=3)
        run(lake, table, dependencies)
        lake.append_numbers(table, files=2, start=100)
        run(lake, table, dependencies)
        found = list(build_verifier(dependencies).compare_commits(table))
        assert [(comparison.is_equal, comparison.rows_before) for comparison in found] == [(True, 50), (True, 30)]

    def test_different_snapshots_differ_by_column(self, lake: Lake, dependencies: RunDependencies) -> None:
        table = lake.create("id BIGINT, v STRING, d DOUBLE")
        lake.append(table, "VALUES (1, 'a', 0.0D), (2, 'b', DOUBLE('NaN'))")
        first = lake.current_snapshot_id(table)
        lake.sql(f"INSERT OVERWRITE {table} VALUES (1, 'a', -0.0D), (2, 'b', DOUBLE('NaN'))")
        second = lake.current_snapshot_id(table)
        found = build_verifier(dependencies).compare(table, first, second)
        assert not found.is_equal
        assert {difference.column for difference in found.differences} == {"d", "(whole rows)"}
        assert build_verifier(dependencies).compare(table, first, first).is_equal
        same = build_verifier(dependencies).compare(table, second, second, all_files=True)
        assert (same.is_equal, same.rows_before) == (True, 2)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("named_struct('a', 1, 'b', null)", "named_struct('a', null, 'b', 1)"),
            ("named_struct('a', null, 'b', null)", "null"),
            ("named_struct('a', 1, 'b', null)", "named_struct('a', 1, 'b', 42)"),
        ],
    )
    def test_nulls_in_structs_are_distinguished(
        self, lake: Lake, dependencies: RunDependencies, one: str, other: str
    ) -> None:
        check_differ(lake, dependencies, "STRUCT<a: INT, b: INT>", one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("array(1, null)", "array(null, 1)"),
            ("array()", "null"),
            ("array(null)", "array()"),
            ("array(1, 2)", "array(2, 1)"),
        ],
    )
    def test_nulls_and_order_in_lists_are_distinguished(
        self, lake: Lake, dependencies: RunDependencies, one: str, other: str
    ) -> None:
        check_differ(lake, dependencies, "ARRAY<INT>", one, other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [("map('a', 1)", "map('a', null)"), ("map()", "null"), ("map('a', 1, 'b', 2)", "map('a', 2, 'b', 1)")],
    )
    def test_entries_of_maps_are_distinguished(
        self, lake: Lake, dependencies: RunDependencies, one: str, other: str
    ) -> None:
        check_differ(lake, dependencies, "MAP<STRING, INT>", one, other)

    def test_a_failed_check_is_repeated(
        self, lake: Lake, dependencies: RunDependencies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = import_hive_folder(lake, tmp_path)
        build = tasks._input_file
        monkeypatch.setattr(tasks, "_input_file", lambda *args: replace(build(*args), constants={}))
        run_with_mismatch(lake, table, dependencies)
        assert not build_verifier(dependencies).repeat(table).is_equal
        monkeypatch.undo()
        head = lake.current_snapshot_id(table)
        assert build_verifier(dependencies).repeat(table).is_equal
        assert lake.current_snapshot_id(table) == head
        assert not [path for path in list_files(lake.table_folder(table)) if "icepack-verify" in path.name]


def build_verifier(dependencies: RunDependencies) -> Verifier:
    assert dependencies.verification is not None
    return Verifier(
        engine=dependencies.engine,
        commit_reader=dependencies.commit_reader,
        history=dependencies.history,
        verification=dependencies.verification,
    )


def check_differ(lake: Lake, dependencies: RunDependencies, kind: str, one: str, other: str) -> None:
    table = lake.create(f"id BIGINT, c {kind}")
    heads = []
    for value in (one, other):
        lake.sql(f"INSERT OVERWRITE {table} SELECT 1, CAST({value} AS {kind})")
        heads.append(lake.current_snapshot_id(table))
    assert not build_verifier(dependencies).compare(table, *heads).is_equal
