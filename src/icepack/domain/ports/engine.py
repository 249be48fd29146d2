"""Ports to the engine that runs maintenance actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Any, Protocol

from icepack.domain.actions import Action
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.expression import Expression
from icepack.domain.run import Stamp
from icepack.domain.table import TableId
from icepack.domain.verification import Mismatch, ValueComparison, ValueProof, VerificationStore
from icepack.errors import Cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an action is; reported once per finished group."""

    done: int
    total: int
    message: str = ""
    groups_done: int = 0
    groups: int = 0
    """File groups that are rewritten together: a partition or part of a large one. 0 if the engine has no groups."""
    files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    working_on: tuple[str, ...] = ()
    """Partitions that are being rewritten, if the engine reports them."""


ProgressSink = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """Ignores progress."""


def ignore_proof(_: ValueProof) -> None:
    """Ignores proofs."""


def no_ownership_check() -> None:
    """For runs that need neither a claim nor a lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """What the engine reports about a run; recorded beside what the snapshots show."""

    files_deleted: int = 0
    bytes_deleted: int = 0
    failed_groups: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    value_proof: ValueProof | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Everything that an engine needs besides the table and the action."""

    stamp: Stamp
    now: datetime
    where: Expression | None = None
    foreign_locations: Mapping[str, str] = field(default_factory=dict)
    """Locations of all other tables, each with a phrase that completes a sentence: `where table a.b.c lies`."""
    progress: ProgressSink = no_progress
    cancel: Event = field(default_factory=Event)
    confirm_ownership: Callable[[], None] = no_ownership_check
    """Raises Cancelled if the claim or lock on the table has been lost."""

    plan: CompactionPlan | None = None
    """Which files a compaction rewrites, planned from the current snapshot; None if the engine plans by itself."""
    verification: VerificationStore | None = None
    """Which file classes are trusted on this table; without a store every file class is treated as new."""
    report_proof: Callable[[ValueProof], None] = ignore_proof
    """Receives what this attempt has proven so far; the run record keeps it even if the attempt then fails."""
    reports_progress: Event = field(default_factory=Event)
    """Set while the action reports its own progress, so that the session does not report progress as well."""

    def check(self) -> None:
        """Raises Cancelled if the run must stop; called right before the table or its files are changed."""
        if self.cancel.is_set():
            raise Cancelled("Stopped before anything was committed.")
        self.confirm_ownership()


class ActionEngine(Protocol):
    """Runs one action on one table."""

    can_stamp: bool

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult: ...

    def count_rows(self, table: TableId, snapshot_id: int) -> int: ...

    def compare_values(
        self, table: TableId, snapshot_id: int, against_id: int, *, all_files: bool = False
    ) -> ValueComparison:
        """Compares two snapshots by value; files that both contain are read only with `all_files`."""
        ...

    def repeat_check(self, table: TableId, mismatch: Mismatch) -> ValueComparison:
        """Rewrites the files of a mismatch natively again and compares the values, without committing."""
        ...

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        """Sets main to the parent by compare-and-swap; returns False if the snapshot is no longer the head of main."""
        ...

    def close(self) -> None: ...


class QueryEngine(Protocol):
    """Runs SQL."""

    def execute(self, sql: str) -> Sequence[Mapping[str, Any]]: ...
