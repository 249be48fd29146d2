"""Compares snapshots of a table by value, for a user who wants to be sure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from icepack.domain.actions import commits_snapshot
from icepack.domain.ports.engine import ActionEngine, CommitLedger, HistoryStore
from icepack.domain.run import CommitFacts
from icepack.domain.table import TableId
from icepack.domain.verification import ValueComparison, VerificationStore
from icepack.errors import UsageError

# Of the history, newest first, when no snapshot is named.
RECENT_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    engine: ActionEngine
    ledger: CommitLedger
    history: HistoryStore
    verification: VerificationStore

    def compare(self, table: TableId, snapshot_id: int, against_id: int, *, all_files: bool = False) -> ValueComparison:
        return self.engine.compare_values(table, snapshot_id, against_id, all_files=all_files)

    def compare_commits(self, table: TableId, *, all_files: bool = False) -> Iterator[ValueComparison]:
        """Each commit that icepack has made, and that has not expired, with its own parent; the newest first."""
        for commit in self._commits(table):
            assert commit.parent_id is not None
            yield self.compare(table, commit.parent_id, commit.snapshot_id, all_files=all_files)

    def repeat(self, table: TableId) -> ValueComparison:
        """The check that switched the native rewrite off for the table."""
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
                found = self.ledger.commits_of(table, record.job_id)
                yield from (commit for commit in reversed(found) if commit.parent_known and commit.parent_id)
