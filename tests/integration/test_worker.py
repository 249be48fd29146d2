"""A worker on real tables; and many workers whose database goes away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.postgres import PostgresServer
from icepack.domain.actions import Action, Compact, ExpireSnapshots, RemoveOrphanFiles, RewriteEngine
from icepack.domain.job import Job, JobEventKind, JobProgress, JobRequest, JobState
from icepack.domain.observability.metric_definitions import Series
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.errors import Cancelled
from icepack.service.maintenance import MaintenanceRunner, Runner, RunRequest
from icepack.service.retry import PatientHistory
from icepack.service.worker.context import Desk, WorkEnd, WorkTerms
from icepack.service.worker.worker import Worker
from icepack.store.backend import Stores, open_stores
from icepack.store.metrics.totals import SqlFigures
from icepack.store.queue.reaper import Reaper

from .lakes import Lake, Occupied, files_below, stray

GROUPS = 60
ONE_BY_ONE = {"max-concurrent-file-group-rewrites": "1"}
SLOWLY = Compact(rewrite_all=True, engine=RewriteEngine.SPARK, options=ONE_BY_ONE)
"""One group after another, each slow enough to be met on its way: the kernel would be done by then."""


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


def worker(stores: Stores, runner: Runner, lease: timedelta = timedelta(seconds=6)) -> Worker:
    terms = WorkTerms(lease=lease, poll=timedelta(seconds=0.05), retry_delay=timedelta(0))
    history = PatientHistory(stores.history)
    return Worker(
        Desk(jobs=stores.jobs, runner=runner, history=history, reaper=Reaper(stores.jobs, lease), terms=terms)
    )


def on(lake: Lake, **tools: Any) -> MaintenanceRunner:
    return MaintenanceRunner(lake.with_tools(**tools))


def submit(stores: Stores, table: TableId, action: Action) -> Job:
    return stores.jobs.submit(JobRequest(table=table, action=action)).job


class Engine:
    """The real engine, with something done after it or before it."""

    can_stamp = True

    def __init__(self, lake: Lake, run: Callable[[Callable[[], EngineResult], RunContext], EngineResult]) -> None:
        self.real = lake.engine
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def run(self, table: TableId, action: Action, context: RunContext) -> EngineResult:
        return self._run(lambda: self.real.run(table, action, context), context)


def when(condition: Callable[[], object], deed: Callable[[], object]) -> threading.Thread:
    def wait() -> None:
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)
        deed()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


class TestRealTables:
    def test_progress_is_told_in_groups_files_and_bytes(self, lake: Lake, stores: Stores, many_groups: TableId) -> None:
        job = submit(stores, many_groups, SLOWLY)
        seen: list[JobProgress] = []
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.1):
                seen.append(stores.jobs.get(job.id).progress)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        finally:
            done.set()
            thread.join()
        on_its_way = [progress for progress in seen if 0 < progress.partitions_completed < GROUPS]
        assert on_its_way, "nothing was told before the end"
        assert all(progress.partitions_total == GROUPS for progress in on_its_way)
        assert all(progress.files_processed == 2 * progress.partitions_completed for progress in on_its_way)
        assert all(progress.bytes_read > 0 < progress.bytes_written for progress in on_its_way)
        ended = stores.jobs.get(job.id)
        assert (ended.progress.partitions_completed, ended.progress.files_processed) == (GROUPS, 2 * GROUPS)
        assert ended.details["effect"]["files_added"] == GROUPS

    def test_its_trace_and_the_figures_tell_of_a_real_compaction(
        self, lake: Lake, stores: Stores, many_groups: TableId
    ) -> None:
        job = submit(stores, many_groups, Compact(rewrite_all=True))
        assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        told = [event.details for event in stores.jobs.events(job.id) if event.kind is JobEventKind.SPAN]
        assert [span["name"] for span in told if span] == ["run", "planning", "execution", "commit"]
        times = [(span["started_at"], span["ended_at"]) for span in told if span]
        assert times[0][0] <= times[1][0] <= times[1][1] <= times[2][0] <= times[2][1] <= times[3][0] <= times[0][1]
        effect = (stores.jobs.get(job.id).details or {})["effect"]
        figures = SqlFigures(stores.engine, CostModel()).read()
        assert figures[Series("files_compacted_total")] == effect["files_rewritten"] > 0
        assert figures[Series("file_size_distribution_count")] == effect["files_added"] == GROUPS
        assert figures[Series("file_size_distribution_sum")] == effect["bytes_added"]

    def test_a_cancelled_job_leaves_spark_within_seconds(
        self, lake: Lake, stores: Stores, many_groups: TableId, tmp_path: Path
    ) -> None:
        """While no slot is free the job can only end by leaving Spark, however late the worker hears of it."""
        job = submit(stores, many_groups, SLOWLY)
        head, asked = lake.head(many_groups), []

        def cancel() -> None:
            asked.append(time.monotonic())
            stores.jobs.cancel(job.id)

        with Occupied(lake, tmp_path / "slots") as slots:
            when(lambda: slots.others, cancel)
            assert worker(stores, on(lake), timedelta(seconds=3)).work_once() is WorkEnd.CANCELLED
            assert slots.is_held
            assert time.monotonic() - asked[0] < 30
        assert lake.head(many_groups) == head
        assert stores.jobs.get(job.id).state is JobState.CANCELLED

    def test_told_to_stop_it_hands_back_and_another_finishes(
        self, lake: Lake, stores: Stores, many_groups: TableId, tmp_path: Path
    ) -> None:
        job = submit(stores, many_groups, SLOWLY)
        rows = lake.main(many_groups)
        one = worker(stores, on(lake))
        with Occupied(lake, tmp_path / "slots") as slots:
            when(lambda: slots.others, one.stop)
            assert one.work_once() is WorkEnd.RETURNED
        assert stores.jobs.get(job.id).attempts_left == 3
        assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        assert lake.main(many_groups) == rows


class Vanish(BaseException):
    """As if the process had died."""


def die_after_the_commit(run: Callable[[], EngineResult], context: RunContext) -> EngineResult:
    run()
    raise Vanish


class TestRetriesOnRealTables:
    @pytest.fixture
    def table(self, lake: Lake) -> TableId:
        table = lake.create()
        lake.numbers(table, files=3)
        return table

    def _die(self, lake: Lake, stores: Stores, table: TableId, action: Action) -> Job:
        job = submit(stores, table, action)
        # Long enough for a busy machine to answer a heartbeat in time: the job is to die, not to be given up.
        dying = worker(stores, on(lake, engine=Engine(lake, die_after_the_commit)), timedelta(seconds=4))
        with pytest.raises(Vanish):
            dying.work_once()
        time.sleep(4.1)
        assert [taken.id for taken in stores.jobs.reap()] == [job.id]
        return job

    def test_what_was_committed_before_the_crash_is_not_done_again(
        self, lake: Lake, stores: Stores, table: TableId
    ) -> None:
        rows = lake.main(table)
        job = self._die(lake, stores, table, Compact(rewrite_all=True))
        head = lake.head(table)
        assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        ended = stores.jobs.get(job.id)
        assert (lake.head(table), ended.attempts) == (head, 2)
        assert ended.details["effect"]["files_rewritten"] == 3
        assert ended.details["proofs"][0]["rows_after"] == 30
        assert lake.main(table) == rows

    def test_with_the_stamped_snapshot_expired_it_is_done_again_and_converges(
        self, lake: Lake, stores: Stores, table: TableId
    ) -> None:
        self._die(lake, stores, table, Compact(rewrite_all=True))
        lake.append(table, "VALUES (100, 'late')")
        lake.java(table).expireSnapshots().expireOlderThan(2**62).commit()
        assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        assert len(lake.main(table)) == 31
        assert lake.status(table).data.count == 1

    def test_an_expiry_is_run_again_and_finds_nothing(self, lake: Lake, stores: Stores, table: TableId) -> None:
        job = self._die(lake, stores, table, ExpireSnapshots(older_than=timedelta(0)))
        assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        assert stores.jobs.get(job.id).details["effect"]["snapshots_removed"] == 0
        assert lake.status(table).snapshots.count == 1
        assert len(lake.main(table)) == 30

    def test_partial_progress_goes_on_where_it_was(self, lake: Lake, stores: Stores) -> None:
        table = lake.create(partitioned_by="bucket(3, id)")
        for _ in range(3):
            lake.append(table, "SELECT id, 'v' || id FROM range(30)")
        rows = lake.main(table)
        action = Compact(partial_progress=True, min_input_files=2, options=ONE_BY_ONE)
        job = self._die(lake, stores, table, action)
        before = lake.status(table).snapshots.count
        assert worker(stores, on(lake)).work_once() is WorkEnd.SUCCEEDED
        assert lake.status(table).snapshots.count == before, "nothing was left to do"
        assert stores.jobs.get(job.id).details["effect"]["files_rewritten"] == 9, "what the job did in all"
        assert lake.main(table) == rows


class TestBeforeFilesAreDeleted:
    """The claim is asked for once more, after all that took so long."""

    def _lost_when(self, condition: Callable[[], bool]) -> Callable[[], None]:
        def still_mine() -> None:
            if condition():
                raise Cancelled("Worker 'a' no longer holds the job.")

        return still_mine

    def test_expired_files_stay_where_the_claim_is_lost(self, lake: Lake) -> None:
        table = lake.create()
        lake.numbers(table, files=3)
        lake.run(table, Compact(rewrite_all=True))
        files = {path for path in files_below(lake.place(table)) if path.suffix == ".parquet"}
        lost = self._lost_when(lambda: lake.status(table).snapshots.count == 1)
        record = on(lake).run(RunRequest(table=table, action=ExpireSnapshots(older_than=timedelta(0)), still_mine=lost))
        assert (record.state, record.retryable) == (RunState.FAILED, True)
        assert {path for path in files_below(lake.place(table)) if path.suffix == ".parquet"} == files

    def test_orphans_stay_where_the_claim_is_lost(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        from icepack.engine.actions import orphan_files

        table = lake.create()
        lake.numbers(table, files=2)
        litter = stray(lake.place(table) / "data")
        checked: list[object] = []
        check = orphan_files.check_caps
        monkeypatch.setattr(orphan_files, "check_caps", lambda *args: (checked.append(args), check(*args)))
        lost = self._lost_when(lambda: bool(checked))
        record = on(lake).run(RunRequest(table=table, action=RemoveOrphanFiles(), still_mine=lost))
        assert record.state is RunState.CANCELLED
        assert litter.exists()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server
    finally:
        server.remove()


class Slow:
    """A runner that takes its time and asks, as the real one does, whether the table is still its own."""

    def __init__(self) -> None:
        self.at_work: dict[TableId, int] = {}
        self.clashes: list[TableId] = []
        self._lock = threading.Lock()

    def run(self, request: RunRequest) -> RunRecord:
        self._enter(request.table, 1)
        try:
            assert request.cancel is not None
            stopped = request.cancel.wait(0.5)
            request.still_mine()
        except Cancelled:
            stopped = True
        finally:
            self._enter(request.table, -1)
        assert request.job_id is not None
        now = datetime.now(UTC)
        state = RunState.CANCELLED if stopped else RunState.SUCCEEDED
        facts = {"table": request.table, "action": request.action, "state": state}
        return RunRecord(job_id=request.job_id, started_at=now, finished_at=now, **facts)

    def _enter(self, table: TableId, change: int) -> None:
        with self._lock:
            self.at_work[table] = self.at_work.get(table, 0) + change
            if self.at_work[table] > 1:
                self.clashes.append(table)


def test_the_database_goes_away_in_the_middle_of_everything(postgres: PostgresServer) -> None:
    """Longer than a lease: what ran is stopped and run again, and every job ends once."""
    with postgres.database() as url:
        stores = open_stores(url)
        tables = [TableId("lake", ("db",), f"t{number % 8}") for number in range(24)]
        jobs = [
            submit(stores, table, replace(SLOWLY, min_input_files=number + 1)) for number, table in enumerate(tables)
        ]
        slow = Slow()
        workers = [worker(stores, slow, timedelta(seconds=2)) for _ in range(4)]
        threads = [threading.Thread(target=one.work_on) for one in workers]
        for thread in threads:
            thread.start()
        time.sleep(1.2)
        postgres.stop("immediate")
        time.sleep(4)
        postgres.start()
        end = time.monotonic() + 60
        while stores.jobs.counts()[JobState.SUCCEEDED] < len(jobs) and time.monotonic() < end:
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
        assert slow.clashes == []
        stores.close()
