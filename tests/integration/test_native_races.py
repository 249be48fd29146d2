"""The native rewrite among writers that never rest: whatever the order of events, no row is lost and none comes back.

Every writer keeps its own book. Ids are appended once; an id that was deleted, by position, by vector or by
equality, never returns; an id whose delete failed is still there.
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
from icepack.engine.spark import activated
from icepack.service.maintenance import MaintenanceRunner, RunRequest

from .lakes import Lake, equality_delete, files_below, local

SOAK = bool(os.environ.get("ICEPACK_SOAK"))
SECONDS = float(os.environ.get("ICEPACK_SOAK_SECONDS", "600")) / 2 if SOAK else 12.0
BATCH = 20


@dataclass
class Book:
    """What must be in the table in the end."""

    appended: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    undecided: set[int] = field(default_factory=set)
    """Whether their delete landed is not known."""
    records: list[RunRecord] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    conflicts: int = 0

    @property
    def present(self) -> set[int]:
        return self.appended - self.deleted


class Race:
    """Threads that do one thing each, over and over, until the time is up."""

    def __init__(self, lake: Lake, table: TableId, version: int) -> None:
        self.lake, self.table, self.version, self.book = lake, table, version, Book()
        self.random = Random(version)
        self.over = threading.Event()
        self.ids = count()
        self.lock = threading.Lock()

    def run(self, *deeds: Callable[[], None]) -> None:
        threads = [threading.Thread(target=self._again, args=(deed,), name=deed.__name__) for deed in deeds]
        for thread in threads:
            thread.start()
        self.over.wait(SECONDS)
        self.over.set()
        for thread in threads:
            thread.join()

    def _again(self, deed: Callable[[], None]) -> None:
        activated(self.lake.spark)
        try:
            while not self.over.is_set():
                deed()
                self.over.wait(0.05)
        except BaseException as exc:
            self.book.faults.append(exc)
            self.over.set()

    def append(self) -> None:
        ids = [next(self.ids) for _ in range(BATCH)]
        if self.version == 2:
            self._append_from_elsewhere(ids)
        else:
            self.lake.append(self.table, f"SELECT id, 'v' || id FROM range({ids[0]}, {ids[-1] + 1})")
        with self.lock:
            self.book.appended.update(ids)

    def _append_from_elsewhere(self, ids: list[int]) -> None:
        """Another client altogether; it cannot write the newest format."""
        from pyiceberg.exceptions import CommitFailedException

        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{id}" for id in ids]})
        while True:
            try:
                return self.lake.catalogs.load(self.table).append(rows)
            except CommitFailedException:
                continue

    def delete_by_row(self) -> None:
        """Spark writes position deletes, or vectors, and refuses where the files have changed meanwhile."""
        chosen = self._choose()
        if chosen:
            self._decide(chosen, lambda: self.lake.sql(f"DELETE FROM {self.table} WHERE id IN ({_listed(chosen)})"))

    def delete_by_equality(self) -> None:
        chosen = self._choose()
        if chosen:
            self._decide(chosen, lambda: equality_delete(self.lake, self.table, ["id"], [(id,) for id in chosen]))

    def _choose(self) -> list[int]:
        with self.lock:
            free = sorted(self.book.present - self.book.undecided)
            chosen = self.random.sample(free, min(3, len(free)))
            self.book.undecided.update(chosen)
        return chosen

    def _decide(self, chosen: list[int], deed: Callable[[], object]) -> None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            deed()
        except (Py4JJavaError, PySparkException):
            # Refused: the rows are as they were, which the end will show.
            self.book.conflicts += 1
            return
        with self.lock:
            self.book.deleted.update(chosen)
            self.book.undecided.difference_update(chosen)

    def compact(self) -> None:
        self._keep(Compact(rewrite_all=True, delete_file_threshold=1))

    def compact_in_parts(self) -> None:
        """Another keeper of the same table."""
        action = Compact(min_input_files=2, partial_progress=True, engine=self.random.choice(list(RewriteEngine)))
        self._keep(action)

    def _keep(self, action: Compact) -> None:
        record = MaintenanceRunner(self.lake.tools).run(RunRequest(table=self.table, action=action))
        self.book.records.append(record)


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


def ids_of(lake: Lake, table: TableId) -> list[int]:
    return sorted(row["id"] for row in lake.sql(f"SELECT id FROM {table}").collect())


def check(lake: Lake, table: TableId, book: Book) -> None:
    assert not book.faults, book.faults
    found = ids_of(lake, table)
    assert len(found) == len(set(found)), "no row is there twice"
    assert set(found) <= book.appended
    assert book.present - set(found) <= book.undecided, "nothing is lost"
    assert not set(found) & book.deleted, "nothing comes back"
    assert set(found) >= book.present - book.undecided
    values = {row["v"] for row in lake.sql(f"SELECT v FROM {table}").collect()}
    assert values == {f"v{id}" for id in found}


def check_runs(book: Book) -> None:
    """Losing to other writers is no failure of the table; but a proof that does not hold is."""
    assert all(proof.holds for record in book.records for proof in record.proofs)
    bad = [record.message for record in book.records if record.state is RunState.FAILED and not record.retryable]
    assert not bad
    assert any(record.commits for record in book.records)


def orphans(lake: Lake, table: TableId) -> set[Any]:
    known = {local(row["file_path"]) for row in lake.sql(f"SELECT file_path FROM {table}.all_files").collect()}
    return {path for path in files_below(lake.place(table) / "data") if path.name.startswith("icepack-")} - known


@pytest.mark.parametrize("version", [2, 3])
def test_nothing_is_lost_and_nothing_comes_back(lake: Lake, version: int) -> None:
    table = lake.create(hint="race", version=version, properties={"commit.retry.num-retries": "40"})
    race = Race(lake, table, version)
    race.append()
    began = time.monotonic()
    race.run(race.append, race.delete_by_row, race.delete_by_equality, race.compact, race.compact_in_parts)
    check(lake, table, race.book)
    check_runs(race.book)
    assert race.book.deleted, f"nobody deleted anything in {time.monotonic() - began:.0f} s"
    assert not orphans(lake, table), "a driver that lives removes what it did not commit"
    lake.run(table, Compact(rewrite_all=True, delete_file_threshold=1))
    check(lake, table, race.book)
