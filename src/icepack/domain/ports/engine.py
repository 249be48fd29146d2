"""What the service layer asks of the adapters, each port as small as its caller needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Any, Protocol
from uuid import UUID

from icepack.domain.actions import Action, ActionKind, ExpireSnapshots
from icepack.domain.locations import TableLocations
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.plan.expression import Expression
from icepack.domain.plan.files import FileListing, PartitionKey
from icepack.domain.recommendation.recommend import PastRun
from icepack.domain.run import CommitFacts, RunRecord, RunState, Stamp
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import Mismatch, ValueComparison, ValueProof, VerificationStore
from icepack.errors import Cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLens:
    """Which sizes to measure a table by where it does not say so itself."""

    target_file_bytes: int
    small_file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPreview:
    """What an expiry would remove, computed from the manifests; `bytes` leaves out the manifest lists."""

    snapshot_ids: tuple[int, ...]
    data_files: int
    delete_files: int
    manifests: int
    manifest_lists: int
    bytes: int
    statistics_files: int = 0

    @property
    def files(self) -> int:
        return self.data_files + self.delete_files + self.manifests + self.manifest_lists + self.statistics_files


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredTables:
    """The tables of the catalogs that answered."""

    tables: tuple[TableId, ...]
    silent_catalogs: Mapping[str, str] = field(default_factory=dict)
    """Catalogs that did not answer, with their reason."""


class Discovery(Protocol):
    """Finds tables."""

    def tables(self, catalog: str | None = None) -> list[TableId]:
        """Raises where a catalog does not answer."""
        ...

    def discover(self) -> DiscoveredTables:
        """A catalog that does not answer hides no other's tables."""
        ...

    def exists(self, table: TableId) -> bool: ...

    def locations(self) -> TableLocations:
        """Every place where each table of every catalog lies; orphan removal must know its neighbours.

        A table that cannot be read, or a catalog that does not answer, is in it with what is assumed of it.
        """
        ...


class MetadataInspector(Protocol):
    """Reads metadata, never data files."""

    def properties(self, table: TableId) -> Mapping[str, str]: ...

    def inspect(self, table: TableId) -> TableStatus: ...

    def inspect_both(
        self, table: TableId, lens_for: Callable[[TableStatus], SizeLens]
    ) -> tuple[TableStatus, TableStatus]:
        """One look, measured by the table's own sizes and through the lens that is chosen for it."""
        ...

    def files(self, table: TableId, where: Expression | None = None) -> FileListing: ...

    def matching_partitions(self, table: TableId, where: Expression) -> frozenset[PartitionKey]: ...

    def preview_expiry(self, table: TableId, action: ExpireSnapshots, now: datetime) -> ExpiryPreview: ...


class CommitLedger(Protocol):
    """Reads what commits did."""

    def commits_of(self, table: TableId, job_id: UUID) -> Sequence[CommitFacts]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an action is; told once per finished group."""

    done: int
    total: int
    message: str = ""
    groups_done: int = 0
    groups: int = 0
    """Of files that are rewritten together: a partition, or part of a large one; 0 where the engine has none."""
    files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    working_on: tuple[str, ...] = ()
    """Partitions that are rewritten right now, where the engine tells."""


ProgressSink = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """For callers that do not watch."""


def no_proof(_: ValueProof) -> None:
    """For callers that keep no record."""


def unquestioned() -> None:
    """For work that needs nobody's leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """What the engine itself claims, kept beside what the snapshots show."""

    files_deleted: int = 0
    bytes_deleted: int = 0
    failed_groups: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    value_proof: ValueProof | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """All that an engine gets besides the action."""

    stamp: Stamp
    now: datetime
    where: Expression | None = None
    foreign_locations: Mapping[str, str] = field(default_factory=dict)
    """Locations of all other tables, by location, each with the end of a sentence: `where table a.b.c lies`."""
    progress: ProgressSink = no_progress
    cancel: Event = field(default_factory=Event)
    still_mine: Callable[[], None] = unquestioned
    """Raises Cancelled when the right to work on the table is lost."""

    plan: Callable[[], CompactionPlan] | None = None
    """Which files a compaction rewrites, planned from the current snapshot; engines that plan themselves do not ask."""
    verification: VerificationStore | None = None
    """What is known of the native rewrite on this table; None makes every class of files a new one."""
    proven: Callable[[ValueProof], None] = no_proof
    """Told what this attempt has proven so far; kept in the run record even if the attempt then fails."""
    told: Event = field(default_factory=Event)
    """Set by whoever tells the progress from inside the work; nobody else then does."""

    def check(self) -> None:
        """Asked just before the table or its files are touched; raises Cancelled when it is time to stop."""
        if self.cancel.is_set():
            raise Cancelled("Stopped before anything was committed.")
        self.still_mine()


class ActionEngine(Protocol):
    """Runs one action on one table."""

    can_stamp: bool

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult: ...

    def count_rows(self, table: TableId, snapshot_id: int) -> int: ...

    def compare_values(
        self, table: TableId, snapshot_id: int, against_id: int, *, all_files: bool = False
    ) -> ValueComparison:
        """Two snapshots by value; files that both have are read only if `all_files` asks for it."""
        ...

    def repeat_check(self, table: TableId, mismatch: Mismatch) -> ValueComparison:
        """Rewrites the files of a mismatch natively once more, compares, and commits nothing."""
        ...

    def roll_back(self, table: TableId, snapshot_id: int, parent_id: int) -> bool:
        """Points main at the parent by compare-and-swap; False when the snapshot is no longer its head."""
        ...

    def close(self) -> None: ...


class QueryEngine(Protocol):
    """Runs SQL."""

    def execute(self, sql: str) -> Sequence[Mapping[str, Any]]: ...


class HistoryStore(Protocol):
    """Remembers runs."""

    def save(self, record: RunRecord) -> None: ...

    def runs(
        self,
        *,
        table: TableId | None = None,
        kind: ActionKind | None = None,
        state: RunState | None = None,
        limit: int = 50,
    ) -> list[RunRecord]: ...

    def past_runs(self, table: TableId) -> list[PastRun]: ...

    def close(self) -> None: ...
