"""A worker on real tables, and several workers while their database is unavailable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.postgres_server import PostgresServer
from icepack.domain.actions import Action, Compact, ExpireSnapshots, RemoveOrphanFiles, RewriteEngine
from icepack.domain.job import Job, JobEventKind, JobProgress, JobRequest, JobState
from icepack.domain.observability.metric_definitions import Series
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.errors import Cancelled
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.runs.history_store import BufferedHistoryStore
from icepack.service.runs.request import Runner, RunRequest
from icepack.service.worker.job_execution import JobRunner, WorkResult
from icepack.service.worker.options import WorkerOptions
from icepack.service.worker.worker import Worker
from icepack.store.backend import Stores, open_stores
from icepack.store.metrics.totals import SqlMetricsSource
from icepack.store.queue.expired_claims import ExpiredClaims

from .lake import Lake, OccupiedTaskSlots, create_orphan_file, list_files

GROUPS = 60
ONE_BY_ONE = {"max-concurrent-file-group-rewrites": "1"}
# Rewrites one group after another with Spark, slowly enough to be observed; the native rewrite would be too fast.
SLOW_COMPACTION = Compact(rewrite_all=True, engine=RewriteEngine.SPARK, options=ONE_BY_ONE)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = open_stores(f"sqlite:///{tmp_path}/state.db")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def many_groups(lake: Lake) -> TableId:
    table = lake.create(hint="groups", partitioned_by="id")
    for _ in range(2):
        lake.append(table, f"SELECT id, 'v' || id FROM range({GROUPS})")
    return table


def build_worker(stores: Stores, runner: Runner, lease: timedelta = timedelta(seconds=6)) -> Worker:
    options = WorkerOptions(lease=lease, poll=timedelta(seconds=0.05), retry_delay=timedelta(0))
    history = BufferedHistoryStore(stores.history)
    return Worker(
        JobRunner(jobs=stores.jobs, runner=runner, history=history, options=options),
        reaper=ExpiredClaims(stores.jobs, lease),
    )


def build_runner(lake: Lake, **dependencies: Any) -> MaintenanceRunner:
    return MaintenanceRunner(lake.with_dependencies(**dependencies))


def submit(stores: Stores, table: TableId, action: Action) -> Job:
    return stores.jobs.submit(JobRequest(table=table, action=action)).job


class WrappedEngine:
    """Runs the real engine inside of the given function."""

    can_stamp = True

    def __init__(self, lake: Lake, run: Callable[[Callable[[], EngineResult], RunContext], EngineResult]) -> None:
        self.real = lake.engine
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        return self._run(lambda: self.real.run(table, action, context), context)


def call_when(condition: Callable[[], object], function: Callable[[], object]) -> threading.Thread:
    def wait() -> None:
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        function()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


class TestRealTables:
    def test_progress_has_groups_files_and_bytes(self, lake: Lake, stores: Stores, many_groups: TableId) -> None:
        job = submit(stores, many_groups, SLOW_COMPACTION)
        seen: list[JobProgress] = []
        done = threading.Event()

        def poll() -> None:
            while not done.wait(0.1):
                seen.append(stores.jobs.get(job.id).progress)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        finally:
            done.set()
            thread.join()
        intermediate = [progress for progress in seen if 0 < progress.partitions_completed < GROUPS]
        assert intermediate, "no progress was reported before the end"
        assert all(progress.partitions_total == GROUPS for progress in intermediate)
        assert all(progress.files_processed == 2 * progress.partitions_completed for progress in intermediate)
        assert all(progress.bytes_read > 0 < progress.bytes_written for progress in intermediate)
        ended = stores.jobs.get(job.id)
        assert (ended.progress.partitions_completed, ended.progress.files_processed) == (GROUPS, 2 * GROUPS)
        assert ended.details["effect"]["files_added"] == GROUPS

    def test_the_trace_and_the_metrics_describe_the_compaction(
        self, lake: Lake, stores: Stores, many_groups: TableId
    ) -> None:
        job = submit(stores, many_groups, Compact(rewrite_all=True))
        assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        spans = [event.details for event in stores.jobs.events(job.id) if event.kind is JobEventKind.SPAN]
        assert [span["name"] for span in spans if span] == ["run", "planning", "execution", "commit"]
        times = [(span["started_at"], span["ended_at"]) for span in spans if span]
        assert times[0][0] <= times[1][0] <= times[1][1] <= times[2][0] <= times[2][1] <= times[3][0] <= times[0][1]
        effect = (stores.jobs.get(job.id).details or {})["effect"]
        metrics = SqlMetricsSource(stores.engine, CostModel()).read()
        assert metrics[Series("files_compacted_total")] == effect["files_rewritten"] > 0
        assert metrics[Series("file_size_distribution_count")] == effect["files_added"] == GROUPS
        assert metrics[Series("file_size_distribution_sum")] == effect["bytes_added"]

    def test_a_cancelled_job_leaves_spark_within_seconds(
        self, lake: Lake, stores: Stores, many_groups: TableId, tmp_path: Path
    ) -> None:
        """While all slots are occupied, the job can only end by leaving Spark."""
        job = submit(stores, many_groups, SLOW_COMPACTION)
        head, cancelled_at = lake.current_snapshot_id(many_groups), []

        def cancel() -> None:
            cancelled_at.append(time.monotonic())
            stores.jobs.cancel(job.id)

        with OccupiedTaskSlots(lake, tmp_path / "slots") as slots:
            call_when(lambda: slots.waiting_jobs, cancel)
            assert build_worker(stores, build_runner(lake), timedelta(seconds=3)).run_one_job() is WorkResult.CANCELLED
            assert slots.is_occupied
            assert time.monotonic() - cancelled_at[0] < 30
        assert lake.current_snapshot_id(many_groups) == head
        assert stores.jobs.get(job.id).state is JobState.CANCELLED

    def test_a_stopped_worker_returns_its_job_and_another_finishes_it(
        self, lake: Lake, stores: Stores, many_groups: TableId, tmp_path: Path
    ) -> None:
        job = submit(stores, many_groups, SLOW_COMPACTION)
        rows = lake.main_rows(many_groups)
        one = build_worker(stores, build_runner(lake))
        with OccupiedTaskSlots(lake, tmp_path / "slots") as slots:
            call_when(lambda: slots.waiting_jobs, one.stop)
            assert one.run_one_job() is WorkResult.RETURNED
        assert stores.jobs.get(job.id).attempts_left == 3
        assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        assert lake.main_rows(many_groups) == rows


class ProcessDied(BaseException):
    """Simulates the death of the process."""


def crash_after_the_commit(run: Callable[[], EngineResult], context: RunContext) -> EngineResult:
    run()
    raise ProcessDied


class TestRetriesOnRealTables:
    @pytest.fixture
    def table(self, lake: Lake) -> TableId:
        table = lake.create()
        lake.append_numbers(table, files=3)
        return table

    def _crash(self, lake: Lake, stores: Stores, table: TableId, action: Action) -> Job:
        job = submit(stores, table, action)
        # The lease is long enough for heartbeats on a busy machine, so that the claim is not lost before the crash.
        crashing = build_worker(
            stores, build_runner(lake, engine=WrappedEngine(lake, crash_after_the_commit)), timedelta(seconds=4)
        )
        with pytest.raises(ProcessDied):
            crashing.run_one_job()
        time.sleep(4.1)
        assert [expired.id for expired in stores.jobs.reap()] == [job.id]
        return job

    def test_a_commit_before_the_crash_is_not_repeated(self, lake: Lake, stores: Stores, table: TableId) -> None:
        rows = lake.main_rows(table)
        job = self._crash(lake, stores, table, Compact(rewrite_all=True))
        head = lake.current_snapshot_id(table)
        assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        ended = stores.jobs.get(job.id)
        assert (lake.current_snapshot_id(table), ended.attempts) == (head, 2)
        assert ended.details["effect"]["files_rewritten"] == 3
        assert ended.details["proofs"][0]["rows_after"] == 30
        assert lake.main_rows(table) == rows

    def test_the_action_is_repeated_if_the_stamped_snapshot_has_expired(
        self, lake: Lake, stores: Stores, table: TableId
    ) -> None:
        self._crash(lake, stores, table, Compact(rewrite_all=True))
        lake.append(table, "VALUES (100, 'late')")
        lake.java_table(table).expireSnapshots().expireOlderThan(2**62).commit()
        assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        assert len(lake.main_rows(table)) == 31
        assert lake.status(table).data.count == 1

    def test_a_repeated_expiry_finds_nothing(self, lake: Lake, stores: Stores, table: TableId) -> None:
        job = self._crash(lake, stores, table, ExpireSnapshots(older_than=timedelta(0)))
        assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        assert stores.jobs.get(job.id).details["effect"]["snapshots_removed"] == 0
        assert lake.status(table).snapshots.count == 1
        assert len(lake.main_rows(table)) == 30

    def test_partial_progress_continues_after_a_crash(self, lake: Lake, stores: Stores) -> None:
        table = lake.create(partitioned_by="bucket(3, id)")
        for _ in range(3):
            lake.append(table, "SELECT id, 'v' || id FROM range(30)")
        rows = lake.main_rows(table)
        action = Compact(partial_progress=True, min_input_files=2, options=ONE_BY_ONE)
        job = self._crash(lake, stores, table, action)
        before = lake.status(table).snapshots.count
        assert build_worker(stores, build_runner(lake)).run_one_job() is WorkResult.SUCCEEDED
        assert lake.status(table).snapshots.count == before, "nothing remained to be done"
        assert stores.jobs.get(job.id).details["effect"]["files_rewritten"] == 9, "the total of both attempts"
        assert lake.main_rows(table) == rows


class TestLostClaim:
    """The claim is checked again right before files are deleted."""

    def _lose_claim_when(self, condition: Callable[[], bool]) -> Callable[[], None]:
        def confirm_ownership() -> None:
            if condition():
                raise Cancelled("Worker 'a' no longer holds the job.")

        return confirm_ownership

    def test_expired_files_are_kept_if_the_claim_is_lost(self, lake: Lake) -> None:
        table = lake.create()
        lake.append_numbers(table, files=3)
        lake.run(table, Compact(rewrite_all=True))
        files = {path for path in list_files(lake.table_folder(table)) if path.suffix == ".parquet"}
        lost = self._lose_claim_when(lambda: lake.status(table).snapshots.count == 1)
        record = build_runner(lake).run(
            RunRequest(table=table, action=ExpireSnapshots(older_than=timedelta(0)), confirm_ownership=lost)
        )
        assert (record.state, record.retryable) == (RunState.FAILED, True)
        assert {path for path in list_files(lake.table_folder(table)) if path.suffix == ".parquet"} == files

    def test_orphan_files_are_kept_if_the_claim_is_lost(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        from icepack.engine.actions import orphan_files

        table = lake.create()
        lake.append_numbers(table, files=2)
        orphan = create_orphan_file(lake.table_folder(table) / "data")
        checked: list[object] = []
        check = orphan_files.check_limits
        monkeypatch.setattr(orphan_files, "check_limits", lambda *args: (checked.append(args), check(*args)))
        lost = self._lose_claim_when(lambda: bool(checked))
        record = build_runner(lake).run(RunRequest(table=table, action=RemoveOrphanFiles(), confirm_ownership=lost))
        assert record.state is RunState.CANCELLED
        assert orphan.exists()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server
    finally:
        server.remove()


class SlowRunner:
    """A slow runner that confirms the ownership of the table, as the real one does."""

    def __init__(self) -> None:
        self.running: dict[TableId, int] = {}
        self.concurrent_runs: list[TableId] = []
        self._lock = threading.Lock()

    def run(self, request: RunRequest) -> RunRecord:
        self._count(request.table, 1)
        try:
            assert request.cancel is not None
            stopped = request.cancel.wait(0.5)
            request.confirm_ownership()
        except Cancelled:
            stopped = True
        finally:
            self._count(request.table, -1)
        assert request.job_id is not None
        now = datetime.now(UTC)
        state = RunState.CANCELLED if stopped else RunState.SUCCEEDED
        facts = {"table": request.table, "action": request.action, "state": state}
        return RunRecord(job_id=request.job_id, started_at=now, finished_at=now, **facts)

    def _count(self, table: TableId, change: int) -> None:
        with self._lock:
            self.running[table] = self.running.get(table, 0) + change
            if self.running[table] > 1:
                self.concurrent_runs.append(table)


def test_every_job_ends_once_after_a_database_outage(postgres: PostgresServer) -> None:
    """The outage is longer than a lease, so running jobs are stopped and run again."""
    with postgres.database() as url:
        stores = open_stores(url)
        tables = [TableId("lake", ("db",), f"t{number % 8}") for number in range(24)]
        jobs = [
            submit(stores, table, replace(SLOW_COMPACTION, min_input_files=number + 1))
            for number, table in enumerate(tables)
        ]
        slow = SlowRunner()
        workers = [build_worker(stores, slow, timedelta(seconds=2)) for _ in range(4)]
        threads = [threading.Thread(target=one.run_until_stopped) for one in workers]
        for thread in threads:
            thread.start()
        time.sleep(1.2)
        postgres.stop("immediate")
        time.sleep(4)
        postgres.start()
        deadline = time.monotonic() + 60
        while stores.jobs.counts()[JobState.SUCCEEDED] < len(jobs) and time.monotonic() < deadline:
            time.sleep(0.1)
        for one in workers:
            one.stop()
        for thread in threads:
            thread.join(10)
        assert [thread for thread in threads if thread.is_alive()] == []
        for job in jobs:
            ends = [event.kind for event in stores.jobs.events(job.id)]
            assert ends.count(JobEventKind.SUCCEEDED) == 1, ends
            assert JobEventKind.FAILED not in ends
        assert {run.state for run in stores.history.runs(limit=100)} == {RunState.SUCCEEDED}
        assert len(stores.history.runs(limit=100)) == len(jobs)
        assert stores.locks.list_locks() == []
        assert slow.concurrent_runs == []
        stores.close()
