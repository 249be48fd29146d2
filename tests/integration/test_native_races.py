"""Runs the native rewrite with concurrent writers: no row is lost, and no deleted row reappears.

The writers record their changes. Each id is appended once; an id that was deleted by position, vector or equality never
reappears; an id whose delete failed still exists.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from icepack.domain.actions import Compact, RewriteEngine
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine.java.tables import activate_session
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.runs.request import RunRequest

from .lake import Lake, commit_equality_delete, list_files, to_local_path

SOAK = bool(os.environ.get("ICEPACK_SOAK"))
SECONDS = float(os.environ.get("ICEPACK_SOAK_SECONDS", "600")) / 2 if SOAK else 12.0
BATCH = 20


@dataclass
class ExpectedRows:
    """The expected content of the table, and the runs."""

    appended: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    # Ids whose delete is running or has failed.
    undecided: set[int] = field(default_factory=set)
    records: list[RunRecord] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    conflicts: int = 0

    @property
    def present(self) -> set[int]:
        return self.appended - self.deleted


class Race:
    """Runs actions repeatedly, each in its own thread, until the time is over."""

    def __init__(self, lake: Lake, table: TableId, version: int) -> None:
        self.lake, self.table, self.version, self.expected = lake, table, version, ExpectedRows()
        self.random = Random(version)
        self.stop = threading.Event()
        self.ids = count()
        self.lock = threading.Lock()

    def run(self, *actions: Callable[[], None]) -> None:
        threads = [threading.Thread(target=self._repeat, args=(action,), name=action.__name__) for action in actions]
        for thread in threads:
            thread.start()
        self.stop.wait(SECONDS)
        self.stop.set()
        for thread in threads:
            thread.join()

    def _repeat(self, action: Callable[[], None]) -> None:
        activate_session(self.lake.spark)
        try:
            while not self.stop.is_set():
                action()
                self.stop.wait(0.05)
        except BaseException as exc:
            self.expected.errors.append(exc)
            self.stop.set()

    def append(self) -> None:
        ids = [next(self.ids) for _ in range(BATCH)]
        if self.version == 2:
            self._append_with_pyiceberg(ids)
        else:
            self.lake.append(self.table, f"SELECT id, 'v' || id FROM range({ids[0]}, {ids[-1] + 1})")
        with self.lock:
            self.expected.appended.update(ids)

    def _append_with_pyiceberg(self, ids: list[int]) -> None:
        """Uses another client, which cannot write format version 3."""
        from pyiceberg.exceptions import CommitFailedException

        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{id}" for id in ids]})
        while True:
            try:
                return self.lake.catalogs.load(self.table).append(rows)
            except CommitFailedException:
                continue

    def delete_by_row(self) -> None:
        """Spark writes position deletes or vectors, and fails if the files have changed."""
        chosen = self._choose()
        if chosen:
            self._try_delete(
                chosen, lambda: self.lake.sql(f"DELETE FROM {self.table} WHERE id IN ({_format_ids(chosen)})")
            )

    def delete_by_equality(self) -> None:
        chosen = self._choose()
        if chosen:
            self._try_delete(
                chosen, lambda: commit_equality_delete(self.lake, self.table, ["id"], [(id,) for id in chosen])
            )

    def _choose(self) -> list[int]:
        with self.lock:
            free = sorted(self.expected.present - self.expected.undecided)
            chosen = self.random.sample(free, min(3, len(free)))
            self.expected.undecided.update(chosen)
        return chosen

    def _try_delete(self, chosen: list[int], delete: Callable[[], object]) -> None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            delete()
        except (Py4JJavaError, PySparkException):
            # The delete failed, so the rows still exist, which is checked at the end.
            self.expected.conflicts += 1
            return
        with self.lock:
            self.expected.deleted.update(chosen)
            self.expected.undecided.difference_update(chosen)

    def compact(self) -> None:
        self._run(Compact(rewrite_all=True, delete_file_threshold=1))

    def compact_in_parts(self) -> None:
        """Another maintenance process on the same table."""
        action = Compact(min_input_files=2, partial_progress=True, engine=self.random.choice(list(RewriteEngine)))
        self._run(action)

    def _run(self, action: Compact) -> None:
        record = MaintenanceRunner(self.lake.dependencies).run(RunRequest(table=self.table, action=action))
        self.expected.records.append(record)


def _format_ids(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


def read_ids(lake: Lake, table: TableId) -> list[int]:
    return sorted(row["id"] for row in lake.sql(f"SELECT id FROM {table}").collect())


def check(lake: Lake, table: TableId, expected: ExpectedRows) -> None:
    assert not expected.errors, expected.errors
    found = read_ids(lake, table)
    assert len(found) == len(set(found)), "no row is duplicated"
    assert set(found) <= expected.appended
    assert expected.present - set(found) <= expected.undecided, "no row is lost"
    assert not set(found) & expected.deleted, "no deleted row reappears"
    assert set(found) >= expected.present - expected.undecided
    values = {row["v"] for row in lake.sql(f"SELECT v FROM {table}").collect()}
    assert values == {f"v{id}" for id in found}


def check_runs(expected: ExpectedRows) -> None:
    """Conflicts with other writers are allowed, but every proof must hold."""
    assert all(proof.holds for record in expected.records for proof in record.proofs)
    failed = [record.message for record in expected.records if record.state is RunState.FAILED and not record.retryable]
    assert not failed
    assert any(record.commits for record in expected.records)


def find_orphan_files(lake: Lake, table: TableId) -> set[Any]:
    known = {to_local_path(row["file_path"]) for row in lake.sql(f"SELECT file_path FROM {table}.all_files").collect()}
    return {path for path in list_files(lake.table_folder(table) / "data") if path.name.startswith("icepack-")} - known


@pytest.mark.parametrize("version", [2, 3])
def test_no_row_is_lost_and_no_deleted_row_reappears(lake: Lake, version: int) -> None:
    table = lake.create(hint="race", version=version, properties={"commit.retry.num-retries": "40"})
    race = Race(lake, table, version)
    race.append()
    started_at = time.monotonic()
    race.run(race.append, race.delete_by_row, race.delete_by_equality, race.compact, race.compact_in_parts)
    check(lake, table, race.expected)
    check_runs(race.expected)
    assert race.expected.deleted, f"no row was deleted in {time.monotonic() - started_at:.0f} s"
    assert not find_orphan_files(lake, table), "a running driver deletes its uncommitted files"
    lake.run(table, Compact(rewrite_all=True, delete_file_threshold=1))
    check(lake, table, race.expected)
