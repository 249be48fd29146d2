"""How often `maintain` inspects a table, and what planning reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID

from icepack.domain.actions import Action, ActionKind, Compact, ComputeStats, ExpireSnapshots, RemoveOrphanFiles
from icepack.domain.locations import TableLocations
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.files import DataFile, FileListing, PartitionKey
from icepack.domain.policy import Policy
from icepack.domain.ports.catalog import ExpiryPreview, SizeThresholds
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.recommendation import PastRun
from icepack.domain.run import CommitFacts, RunRecord, RunState
from icepack.domain.status import (
    DataFileStatus,
    MetadataStatus,
    PartitionStatus,
    Ref,
    SnapshotEntry,
    SnapshotStatus,
    TableStatus,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB
from icepack.errors import CatalogFault, EngineFault, Refused
from icepack.service.advice import PolicyResolver
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.retry import RetryPolicy
from icepack.service.runs.request import RunDependencies
from icepack.service.service import CompactionService, MaintainStep

from .fakes import TABLE
from .test_maintenance import commit

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
UUID_OF_TABLE = "6f1d6c4a-0000-4000-8000-000000000000"


class FakeLake:
    """One table that needs a compaction, an expiry, an orphan search and statistics, with all ports to it.

    It counts inspections, file listings and expiry previews.
    """

    can_stamp = True

    def __init__(self, *, small_files: int = 20, old_snapshots: int = 5, has_statistics: bool = False) -> None:
        self.small_files = small_files
        self.old_snapshots = old_snapshots
        self.has_statistics = has_statistics
        self.head = 100
        self.commits: dict[UUID, CommitFacts] = {}
        self.records: dict[UUID, RunRecord] = {}
        self.inspections = self.listings = self.previews = 0
        self.failures: dict[ActionKind, Exception] = {}
        self.inspection_failure: Exception | None = None

    def status(self) -> TableStatus:
        small_bytes = 40 * MIB if self.small_files else 0
        files = self.small_files + 1
        partition = PartitionStatus(
            key=PartitionKey(0, ""),
            data_files=files,
            bytes=500 * MIB + small_bytes,
            records=1000,
            small_files=self.small_files,
            small_bytes=small_bytes,
        )
        old = [
            SnapshotEntry(
                snapshot_id=number + 1, parent_id=None, committed_at=NOW - timedelta(days=60), operation="append"
            )
            for number in range(self.old_snapshots)
        ]
        head = SnapshotEntry(snapshot_id=self.head, parent_id=None, committed_at=NOW, operation="append")
        return TableStatus(
            table=TABLE,
            observed_at=NOW,
            metadata_location=f"file:/w/{self.head}.json",
            table_uuid=UUID_OF_TABLE,
            format_version=2,
            location="file:/w",
            snapshot_id=self.head,
            data=DataFileStatus(count=files, bytes=partition.bytes, records=1000),
            partitions=(partition,),
            snapshots=SnapshotStatus(
                count=self.old_snapshots + 1,
                refs=(Ref(name="main", kind="branch", snapshot_id=self.head),),
                entries=(*old, head),
            ),
            metadata=MetadataStatus(statistics_snapshot_ids=(self.head,) if self.has_statistics else ()),
        )

    def inspect(self, table: TableId) -> TableStatus:
        self.inspections += 1
        if self.inspection_failure is not None:
            raise self.inspection_failure
        return self.status()

    def inspect_with_thresholds(
        self, table: TableId, thresholds_for: Callable[[TableStatus], SizeThresholds]
    ) -> tuple[TableStatus, TableStatus]:
        status = self.inspect(table)
        thresholds_for(status)
        return status, status

    def files(self, table: TableId, where: object = None) -> FileListing:
        self.listings += 1
        files = [
            DataFile(
                path=f"file:/w/{number}.parquet",
                partition=PartitionKey(0, ""),
                bytes=2 * MIB,
                records=10,
                sequence_number=1,
            )
            for number in range(self.small_files)
        ]
        return FileListing(snapshot_id=self.head, files=tuple(files))

    def preview_expiry(self, table: TableId, action: ExpireSnapshots, now: datetime) -> ExpiryPreview:
        self.previews += 1
        return ExpiryPreview(snapshot_ids=(1,), data_files=1, delete_files=0, manifests=1, manifest_lists=1, bytes=1)

    def commits_of(self, table: TableId, job_id: UUID) -> Sequence[CommitFacts]:
        return [self.commits[job_id]] if job_id in self.commits else []

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        if action.kind in self.failures:
            raise self.failures[action.kind]
        match action:
            case Compact():
                self.small_files = 0
                self.head += 1
                self.commits[context.stamp.job_id] = commit(1, snapshot_id=self.head)
            case ExpireSnapshots():
                self.old_snapshots = 0
            case ComputeStats():
                self.has_statistics = True
        return EngineResult()

    def save(self, record: RunRecord) -> None:
        self.records[record.job_id] = record

    def past_runs(self, table: TableId) -> list[PastRun]:
        ended = [record for record in self.records.values() if record.finished_at is not None]
        return [
            PastRun(
                kind=record.kind,
                finished_at=record.finished_at or NOW,
                snapshot_id_after=record.after.snapshot_id if record.after else None,
                changed_nothing=record.changed_nothing,
                table_uuid=record.table_uuid,
            )
            for record in ended
            if record.state is RunState.SUCCEEDED
        ]

    def service(self) -> CompactionService:
        ports: Any = self
        dependencies = RunDependencies(
            inspector=ports,
            commit_reader=ports,
            engine=ports,
            history=ports,
            locations=TableLocations,
            retry=RetryPolicy(max_attempts=1),
            clock=lambda: NOW,
        )
        return CompactionService(
            discovery=ports,
            inspector=ports,
            history=ports,
            runner=MaintenanceRunner(dependencies),
            policies=PolicyResolver(base=Policy(actions=tuple(ActionKind)), rules=()),
            model=CostModel(),
            clock=lambda: NOW,
        )


class IdleEngineLake(FakeLake):
    """An engine that finds nothing to do."""

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        return EngineResult()


def maintain(lake: FakeLake, **options: Any) -> list[tuple[ActionKind | None, RunState | None]]:
    steps: list[MaintainStep] = list(lake.service().maintain([TABLE], **options))
    return [(step.record.kind, step.record.state) if step.record else (None, None) for step in steps]


DONE = RunState.SUCCEEDED
FULL_MAINTENANCE = [
    (ActionKind.COMPACT, DONE),
    (ActionKind.EXPIRE_SNAPSHOTS, DONE),
    (ActionKind.REMOVE_ORPHAN_FILES, DONE),
    (ActionKind.COMPUTE_STATS, DONE),
]


class TestMaintain:
    def test_a_table_is_inspected_again_only_after_a_run_that_changed_it(self) -> None:
        lake = FakeLake()
        assert maintain(lake) == FULL_MAINTENANCE
        advice, changes, runs = 1, 2, len(FULL_MAINTENANCE)
        assert lake.inspections == advice + changes + 2 * runs == 11

    def test_a_table_that_needs_nothing_is_inspected_once(self) -> None:
        lake = FakeLake(small_files=0, old_snapshots=0, has_statistics=True)
        assert maintain(lake) == [(ActionKind.REMOVE_ORPHAN_FILES, DONE)]
        again = lake.inspections
        assert maintain(lake) == []
        assert lake.inspections - again == 1

    def test_a_run_that_changes_nothing_needs_no_inspection(self) -> None:
        lake = FakeLake(small_files=0, old_snapshots=0)
        assert maintain(lake) == FULL_MAINTENANCE[2:]
        assert lake.inspections == 1 + 2 * 2

    def test_a_refused_run_needs_no_inspection(self) -> None:
        lake = FakeLake(old_snapshots=0, has_statistics=True)
        lake.failures = {ActionKind.COMPACT: Refused("no"), ActionKind.COMPUTE_STATS: Refused("no")}
        assert maintain(lake)[0] == (ActionKind.COMPACT, RunState.REFUSED)
        before_runs = 1
        assert lake.inspections == before_runs + 1 + 2 + 1

    def test_a_failed_run_may_have_changed_the_table(self) -> None:
        lake = FakeLake(old_snapshots=0, has_statistics=True)
        lake.failures = {ActionKind.COMPACT: EngineFault("gone")}
        assert maintain(lake)[:2] == [(ActionKind.COMPACT, RunState.FAILED), (ActionKind.REMOVE_ORPHAN_FILES, DONE)]
        assert lake.inspections >= 1 + 1 + 1 + 2

    def test_what_a_run_that_changed_nothing_makes_unnecessary_is_not_run(self) -> None:
        """Statistics are recommended because of the compaction; if it commits nothing, the snapshot has them."""
        lake = IdleEngineLake(old_snapshots=0, has_statistics=True)
        recommended = {item.kind for item in lake.service().advise(TABLE).recommendation.actions}
        assert ActionKind.COMPUTE_STATS in recommended
        assert maintain(lake) == [(ActionKind.COMPACT, DONE), (ActionKind.REMOVE_ORPHAN_FILES, DONE)]

    def test_a_table_that_cannot_be_inspected_is_one_step(self) -> None:
        lake = FakeLake()
        lake.inspection_failure = CatalogFault("No answer.")
        assert [step.error for step in lake.service().maintain([TABLE])] == ["No answer."]
        lake.inspection_failure = ValueError("odd")
        assert [step.error for step in lake.service().maintain([TABLE])] == ["Unexpected ValueError: odd"]

    def test_it_stops_when_it_is_cancelled(self) -> None:
        lake, cancel = FakeLake(), Event()
        steps = []
        for step in lake.service().maintain([TABLE, TABLE], cancel=cancel):
            steps.append(step)
            cancel.set()
        assert [step.record.kind for step in steps if step.record] == [ActionKind.COMPACT]


class TestPlan:
    def test_the_expiry_is_previewed_only_where_it_is_shown(self) -> None:
        lake = FakeLake()
        service = lake.service()
        assert service.plan_compaction(TABLE).expiry is None
        assert lake.previews == 0
        assert service.plan(TABLE).expiry is not None
        assert lake.previews == 1

    def test_without_an_expiry_nothing_is_previewed(self) -> None:
        lake = FakeLake(old_snapshots=0)
        assert lake.service().plan(TABLE).expiry is None
        assert lake.previews == 0

    def test_a_compaction_is_listed_once_on_its_way(self) -> None:
        lake = FakeLake()
        service = lake.service()
        action = service.prepare(TABLE, ActionKind.COMPACT, {})
        record = service.run(TABLE, action)
        assert record.state is DONE
        assert record.estimate is not None
        assert (lake.listings, lake.inspections, lake.previews) == (1, 3, 0)

    def test_a_compaction_over_its_limit_is_refused_and_recorded(self) -> None:
        lake = FakeLake()
        service = lake.service()
        action = service.prepare(TABLE, ActionKind.COMPACT, {"max_cost_dollars": 0.0})
        record = service.run(TABLE, action)
        assert (record.state, record.error) == (RunState.REFUSED, "CostLimitExceeded")
        assert [saved.state for saved in lake.records.values()] == [RunState.REFUSED]
        assert lake.head == 100

    def test_a_dry_run_of_the_orphan_search_is_not_recorded(self) -> None:
        lake = FakeLake()
        assert lake.service().run(TABLE, replace(RemoveOrphanFiles(), dry_run=True)).state is DONE
        assert lake.records == {}
