"""Compares snapshots of a table by value on request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from icepack.domain.actions import commits_snapshot
from icepack.domain.ports.catalog import CommitReader
from icepack.domain.ports.engine import ActionEngine
from icepack.domain.ports.history import HistoryStore
from icepack.domain.run import CommitFacts
from icepack.domain.table import TableId
from icepack.domain.verification import ValueComparison, VerificationStore
from icepack.errors import UsageError

# How many of the table's latest runs are searched for commits if no snapshot is given.
RECENT_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Compares snapshots with the engine that runs maintenance."""

    engine: ActionEngine
    commit_reader: CommitReader
    history: HistoryStore
    verification: VerificationStore

    def compare(self, table: TableId, snapshot_id: int, against_id: int, *, all_files: bool = False) -> ValueComparison:
        return self.engine.compare_values(table, snapshot_id, against_id, all_files=all_files)

    def compare_commits(self, table: TableId, *, all_files: bool = False) -> Iterator[ValueComparison]:
        """Compares each of icepack's commits that has not expired with its parent, newest first."""
        for commit in self._commits(table):
            assert commit.parent_id is not None
            yield self.compare(table, commit.parent_id, commit.snapshot_id, all_files=all_files)

    def repeat(self, table: TableId) -> ValueComparison:
        """Repeats the check that disabled the native rewrite for the table."""
        entry = self.verification.native_disabled(table)
        if entry is None or entry.mismatch is None:
            raise UsageError(
                f"No value check has failed on {table}, so there is none to repeat.",
                "'icepack verify TABLE' compares icepack's commits with their parents.",
            )
        return self.engine.repeat_check(table, entry.mismatch)

    def _commits(self, table: TableId) -> Iterator[CommitFacts]:
        for record in self.history.runs(table=table, limit=RECENT_RUNS):
            if commits_snapshot(record.kind) and record.commits:
                found = self.commit_reader.commits_of(table, record.job_id)
                yield from (commit for commit in reversed(found) if commit.parent_known and commit.parent_id)
