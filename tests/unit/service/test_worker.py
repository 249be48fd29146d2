"""What a worker does with a job when the job, the database or the engine fails."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from icepack.domain.actions import RemoveOrphanFiles
from icepack.domain.job import JobEventKind, JobProgress, JobRequest, JobState
from icepack.domain.ports.engine import Progress
from icepack.domain.run import RunRecord, RunState
from icepack.errors import CatalogFault, EnvironmentFault, Refused
from icepack.service.runs.request import RunRequest
from icepack.service.worker.job_execution import WorkResult
from icepack.service.worker.options import WorkerOptions
from icepack.service.worker.worker import Worker, generate_worker_name

from .fakes import (
    OTHER,
    SHORT_LEASE,
    TABLE,
    TIMEOUT_SECONDS,
    FlakyStore,
    ScriptedRunner,
    build_job_runner,
    build_record,
    build_worker,
    call_later,
    fail,
    run_steps,
    run_until_cancelled,
    submit,
    succeed,
    wait_until,
)


def kinds(jobs: FlakyStore, job_id: object) -> list[JobEventKind]:
    return [event.kind for event in jobs.real.events(job_id)]


class TestOneJob:
    def test_an_empty_queue_leaves_the_worker_idle(self, jobs: FlakyStore, history: FlakyStore) -> None:
        assert build_worker(jobs, history, succeed).run_one_job() is WorkResult.IDLE

    def test_a_success_ends_the_job_and_frees_its_table(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        job = submit(jobs)
        runs = ScriptedRunner(succeed)
        assert Worker(build_job_runner(jobs, history, runs)).run_one_job() is WorkResult.SUCCEEDED
        ended = jobs.real.get(job.id)
        assert (ended.state, ended.attempts) == (JobState.SUCCEEDED, 1)
        assert ended.details["commits"] == [7]
        assert replace(ended.progress, phases=()) == JobProgress(files_processed=3, bytes_read=30, bytes_written=25)
        assert [mark.phase for mark in ended.progress.phases] == ["planning"]
        assert locks.list_locks() == []
        (request,) = runs.requests
        assert (request.table, request.job_id, request.attempt) == (TABLE, job.id, 1)

    def test_the_table_is_locked_while_the_job_runs(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        submit(jobs)
        seen = []
        one = build_worker(jobs, history, run_steps(lambda _: seen.extend(locks.list_locks()), succeed))
        one.run_one_job()
        assert [(lock.table, lock.owner) for lock in seen] == [(TABLE, one.name)]

    def test_the_run_is_recorded(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        build_worker(jobs, history, succeed).run_one_job()
        (kept,) = history.runs()
        assert (kept.job_id, kept.state) == (job.id, RunState.SUCCEEDED)

    def test_a_dry_run_is_not_recorded(self, jobs: FlakyStore, history: FlakyStore) -> None:
        request = JobRequest(table=TABLE, action=RemoveOrphanFiles(dry_run=True))
        jobs.real.submit(request)
        assert build_worker(jobs, history, build_record).run_one_job() is WorkResult.SUCCEEDED
        assert history.runs() == []

    def test_a_worker_name_has_host_pid_and_a_random_part(self) -> None:
        host, pid, chance = generate_worker_name().rsplit(":", 2)
        assert host
        assert pid.isdecimal()
        assert chance != generate_worker_name().rsplit(":", 1)[1]


class TestFailures:
    def test_a_retryable_failure_is_retried_after_a_delay(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        assert build_worker(jobs, history, fail()).run_one_job() is WorkResult.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts, again.message) == (JobState.QUEUED, 1, "It broke.")
        assert timedelta(seconds=8) < again.waits_until - jobs.real.now() < timedelta(seconds=10)

    def test_delays_double_up_to_a_maximum(self) -> None:
        options = WorkerOptions(retry_delay=timedelta(seconds=30))
        found = [options.delay_before_retry(attempt).total_seconds() for attempt in (1, 2, 3, 7, 8, 10_000)]
        assert found == [30, 60, 120, 1920, 3600, 3600]

    def test_the_last_attempt_fails_for_good_and_keeps_its_record(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs, max_attempts=1)
        assert build_worker(jobs, history, fail()).run_one_job() is WorkResult.FAILED
        ended = jobs.real.get(job.id)
        assert (ended.state, ended.message) == (JobState.FAILED, "It broke.")
        assert ended.details["state"] == "failed"

    @pytest.mark.parametrize(
        "script", [fail(retryable=False), fail(retryable=False, state=RunState.REFUSED)], ids=["failed", "refused"]
    )
    def test_a_failure_that_is_not_retryable_is_final(
        self, jobs: FlakyStore, history: FlakyStore, script: object
    ) -> None:
        job = submit(jobs)
        assert build_worker(jobs, history, script).run_one_job() is WorkResult.FAILED
        assert jobs.real.get(job.id).state is JobState.FAILED

    @pytest.mark.parametrize(
        ("failure", "result"),
        [
            (Refused("Too expensive."), WorkResult.FAILED),
            (CatalogFault("No answer."), WorkResult.RETURNED),
            (RuntimeError("boom"), WorkResult.RETURNED),
        ],
    )
    def test_an_exception_of_the_runner_is_a_failure_like_any_other(
        self, jobs: FlakyStore, history: FlakyStore, failure: Exception, result: WorkResult
    ) -> None:
        job = submit(jobs)

        def raise_failure(request: RunRequest) -> RunRecord:
            raise failure

        assert build_worker(jobs, history, raise_failure).run_one_job() is result
        assert str(failure) in jobs.real.get(job.id).message

    def test_an_unexpected_exception_of_the_runner_does_not_crash_the_worker(
        self, jobs: FlakyStore, history: FlakyStore
    ) -> None:
        job = submit(jobs)

        def explode(request: RunRequest) -> RunRecord:
            raise ZeroDivisionError("oh")

        assert build_worker(jobs, history, explode).run_one_job() is WorkResult.RETURNED
        assert "ZeroDivisionError: oh" in jobs.real.get(job.id).message


class TestCancelling:
    def test_a_running_job_is_stopped_within_a_heartbeat(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        call_later(0.05, lambda: jobs.real.cancel(job.id, by="me"))
        assert build_worker(jobs, history, run_until_cancelled).run_one_job() is WorkResult.CANCELLED
        assert jobs.real.get(job.id).state is JobState.CANCELLED

    def test_what_was_done_before_it_could_be_stopped_is_a_success(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        call_later(0.05, lambda: jobs.real.cancel(job.id))
        assert (
            build_worker(jobs, history, run_steps(run_until_cancelled, succeed)).run_one_job() is WorkResult.SUCCEEDED
        )
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED

    def test_a_job_stopped_halfway_keeps_its_message(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        call_later(0.05, lambda: jobs.real.cancel(job.id))
        assert build_worker(jobs, history, run_steps(run_until_cancelled, fail())).run_one_job() is WorkResult.CANCELLED
        ended = jobs.real.get(job.id)
        assert (ended.state, ended.message) == (JobState.CANCELLED, "It broke.")


class TestStopping:
    def test_a_running_job_is_handed_back_and_uses_up_no_attempt(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs, max_attempts=1)
        one = build_worker(jobs, history, run_until_cancelled)
        call_later(0.05, one.stop)
        assert one.run_one_job() is WorkResult.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts_left, again.waits_until) == (JobState.QUEUED, 1, None)
        assert build_worker(jobs, history, succeed).run_one_job() is WorkResult.SUCCEEDED

    def test_what_was_committed_is_finished(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        one = build_worker(jobs, history, run_steps(run_until_cancelled, succeed))
        call_later(0.05, one.stop)
        assert one.run_one_job() is WorkResult.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED

    def test_what_was_committed_in_part_goes_on_at_once(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        one = build_worker(jobs, history, run_steps(run_until_cancelled, fail()))
        call_later(0.05, one.stop)
        assert one.run_one_job() is WorkResult.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts, again.waits_until) == (JobState.QUEUED, 1, None)

    def test_a_stopped_worker_claims_nothing(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        one = build_worker(jobs, history, succeed)
        one.stop()
        assert one.run_one_job() is WorkResult.IDLE
        assert one.run_until_stopped() is WorkResult.IDLE
        assert jobs.real.get(job.id).state is JobState.QUEUED

    def test_a_job_claimed_while_stopping_is_handed_back(self, jobs: FlakyStore, history: FlakyStore) -> None:
        submit(jobs)
        one = build_worker(jobs, history, run_until_cancelled)
        claim = jobs.real.claim

        def claim_then_stop(*args: object) -> object:
            claimed = claim(*args)
            one.stop()
            return claimed

        jobs.claim = claim_then_stop
        assert one.run_one_job() is WorkResult.RETURNED

    def test_a_cancellation_without_a_reason_counts_as_an_attempt(self, jobs: FlakyStore, history: FlakyStore) -> None:
        """Otherwise a run that always ends like that would be handed back forever."""
        job = submit(jobs, max_attempts=1)
        assert build_worker(jobs, history, fail(state=RunState.CANCELLED)).run_one_job() is WorkResult.FAILED
        assert jobs.real.get(job.id).state is JobState.FAILED


class TestLostClaims:
    def test_a_worker_that_lost_its_claim_stops_and_writes_nothing(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        job = submit(jobs)
        call_later(0.05, lambda: locks.break_lock(TABLE, force=True))
        assert build_worker(jobs, history, run_until_cancelled).run_one_job() is WorkResult.LOST
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts) == (JobState.QUEUED, 1)
        assert history.runs() == []

    def test_a_finish_that_comes_too_late_is_dropped(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        """Broken at the last moment: no heartbeat has noticed."""
        job = submit(jobs)
        script = run_steps(lambda _: locks.break_lock(TABLE, force=True), succeed)
        assert build_worker(jobs, history, script).run_one_job() is WorkResult.LOST
        assert jobs.real.get(job.id).state is JobState.QUEUED
        assert history.runs() == []

    def test_the_claim_is_confirmed_right_before_the_table_is_changed(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        from icepack.errors import Cancelled

        submit(jobs)

        def touch(request: RunRequest) -> RunRecord:
            request.confirm_ownership()
            locks.break_lock(TABLE, force=True)
            with pytest.raises(Cancelled, match="no longer holds"):
                request.confirm_ownership()
            return succeed(request)

        assert build_worker(jobs, history, touch).run_one_job() is WorkResult.LOST

    def test_a_worker_that_lost_its_claim_does_not_overwrite_the_next_workers_record(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        job = submit(jobs)

        def be_overtaken(request: RunRequest) -> RunRecord:
            locks.break_lock(TABLE, force=True)
            assert build_worker(jobs, history, succeed).run_one_job() is WorkResult.SUCCEEDED
            return build_record(request, RunState.FAILED, message="late")

        assert build_worker(jobs, history, be_overtaken).run_one_job() is WorkResult.LOST
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED
        assert [kept.state for kept in history.runs()] == [RunState.SUCCEEDED]
        assert kinds(jobs, job.id).count(JobEventKind.SUCCEEDED) == 1


class TestLostDatabase:
    def test_an_outage_shorter_than_the_lease_has_no_effect(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)

        def work(request: RunRequest) -> RunRecord:
            jobs.unavailable = True
            assert not request.cancel.wait(1.0)
            jobs.unavailable = False
            assert not request.cancel.wait(0.5)
            return succeed(request)

        assert build_worker(jobs, history, work).run_one_job() is WorkResult.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED

    def test_for_a_whole_lease_the_work_stops_and_is_handed_back_when_it_returns(
        self, jobs: FlakyStore, history: FlakyStore
    ) -> None:
        job = submit(jobs, max_attempts=1)

        def work(request: RunRequest) -> RunRecord:
            jobs.unavailable = True
            ended = run_until_cancelled(request)
            call_later(0.3, lambda: setattr(jobs, "unavailable", False))
            return ended

        assert build_worker(jobs, history, work, lease=SHORT_LEASE).run_one_job() is WorkResult.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts_left) == (JobState.QUEUED, 1)

    def test_for_a_whole_lease_and_taken_by_another_nothing_is_written(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        job = submit(jobs)

        def work(request: RunRequest) -> RunRecord:
            jobs.unavailable = True
            ended = run_until_cancelled(request)
            locks.break_lock(TABLE, force=True)
            jobs.unavailable = False
            return ended

        assert build_worker(jobs, history, work, lease=SHORT_LEASE).run_one_job() is WorkResult.LOST
        assert jobs.real.get(job.id).attempts == 1

    def test_a_heartbeat_that_hangs_does_not_hide_that_the_lease_ran_out(
        self, jobs: FlakyStore, history: FlakyStore
    ) -> None:
        submit(jobs)
        hung = threading.Event()
        real = jobs.real.heartbeat

        def hang(claim: object) -> bool:
            hung.wait(TIMEOUT_SECONDS)
            return real(claim)

        jobs.heartbeat = hang
        script = run_steps(run_until_cancelled, lambda request: (hung.set(), request)[1], fail())
        one = build_worker(jobs, history, script, lease=SHORT_LEASE)
        assert one.run_one_job() in (WorkResult.RETURNED, WorkResult.LOST)

    def test_a_finish_waits_until_the_database_is_back(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)

        def work(request: RunRequest) -> RunRecord:
            jobs.unavailable = history.unavailable = True
            call_later(0.5, lambda: (setattr(jobs, "unavailable", False), setattr(history, "unavailable", False)))
            return succeed(request)

        assert build_worker(jobs, history, work).run_one_job() is WorkResult.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED
        assert jobs.calls.count("finish") > 1
        assert [kept.state for kept in history.runs()] == [RunState.SUCCEEDED]

    @pytest.mark.parametrize("method", ["finish"])
    def test_a_result_whose_answer_was_lost_is_written_again(
        self, jobs: FlakyStore, history: FlakyStore, method: str
    ) -> None:
        job = submit(jobs)
        jobs.fails_after[method] = 1
        assert build_worker(jobs, history, succeed).run_one_job() is WorkResult.SUCCEEDED
        assert kinds(jobs, job.id).count(JobEventKind.SUCCEEDED) == 1

    def test_a_retry_whose_answer_was_lost_is_not_recorded_twice(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        jobs.fails_after["fail"] = 1
        assert build_worker(jobs, history, fail()).run_one_job() is WorkResult.RETURNED
        assert kinds(jobs, job.id).count(JobEventKind.RETRIED) == 1

    def test_a_claim_waits_for_the_database(self, jobs: FlakyStore, history: FlakyStore) -> None:
        submit(jobs)
        jobs.fails_before["claim"] = 3
        assert build_worker(jobs, history, succeed).run_one_job() is WorkResult.SUCCEEDED

    def test_a_stopped_worker_does_not_wait_for_the_database(self, jobs: FlakyStore, history: FlakyStore) -> None:
        jobs.unavailable = True
        one = build_worker(jobs, history, succeed)
        call_later(0.3, one.stop)
        assert one.run_one_job() is WorkResult.IDLE

    def test_an_unavailable_history_stops_no_job(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        history.unavailable = True
        one = build_worker(jobs, history, succeed)
        assert one.run_one_job() is WorkResult.SUCCEEDED
        history.unavailable = False
        assert history.runs() == []
        submit(jobs, OTHER)
        one.run_one_job()
        assert job.id in {kept.job_id for kept in history.runs()}, "it is written with the next one"


class TestProgress:
    def test_it_is_written_at_most_once_a_second(
        self, jobs: FlakyStore, history: FlakyStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.undo()
        job = submit(jobs)
        seen: list[JobProgress] = []

        def work(request: RunRequest) -> RunRecord:
            end = time.monotonic() + 2.5
            done = 0
            while time.monotonic() < end:
                done += 1
                request.progress(Progress(done=done, total=9, groups_done=done, groups=1000, files=3 * done))
                time.sleep(0.01)
                seen.append(jobs.real.get(job.id).progress)
            return build_record(request)

        build_worker(jobs, history, work).run_one_job()
        written = [progress for progress in dict.fromkeys(seen) if progress != JobProgress()]
        assert 1 <= len(written) <= 3
        assert all(progress.files_processed == 3 * progress.partitions_completed for progress in written)
        assert jobs.real.get(job.id).progress.partitions_completed == 1000

    def test_the_run_does_not_wait_for_it(self, jobs: FlakyStore, history: FlakyStore) -> None:
        submit(jobs)
        written = threading.Event()

        def write(*_: object) -> None:
            time.sleep(2)
            written.set()

        jobs.progress = write

        def work(request: RunRequest) -> RunRecord:
            request.progress(Progress(done=1, total=2, files=1))
            assert not written.is_set()
            return fail()(request)

        build_worker(jobs, history, work).run_one_job()

    def test_a_lost_claim_is_noticed_when_progress_is_written(
        self, jobs: FlakyStore, history: FlakyStore, locks: FlakyStore
    ) -> None:
        submit(jobs)
        jobs.heartbeat = lambda _: False

        def work(request: RunRequest) -> RunRecord:
            locks.break_lock(TABLE, force=True)
            request.progress(Progress(done=1, total=2, files=1))
            return run_until_cancelled(request)

        assert build_worker(jobs, history, work).run_one_job() is WorkResult.LOST


class TestLoop:
    def test_it_runs_queued_jobs_until_it_is_stopped(self, jobs: FlakyStore, history: FlakyStore) -> None:
        submitted = [submit(jobs), submit(jobs, OTHER)]
        one = build_worker(jobs, history, succeed)
        thread = threading.Thread(target=one.run_until_stopped)
        thread.start()
        wait_until(lambda: all(jobs.real.get(job.id).state is JobState.SUCCEEDED for job in submitted))
        late = submit(jobs)
        wait_until(lambda: jobs.real.get(late.id).state is JobState.SUCCEEDED)
        one.stop()
        thread.join(2)
        assert not thread.is_alive()

    def test_it_reclaims_the_job_of_a_dead_worker(self, jobs: FlakyStore, history: FlakyStore) -> None:
        job = submit(jobs)
        assert jobs.real.claim("dead", SHORT_LEASE) is not None
        one = build_worker(jobs, history, succeed, lease=timedelta(seconds=3))
        thread = threading.Thread(target=one.run_until_stopped)
        thread.start()
        try:
            wait_until(lambda: jobs.real.get(job.id).state is JobState.SUCCEEDED)
        finally:
            one.stop()
            thread.join(5)
        assert jobs.real.get(job.id).attempts == 2
        assert JobEventKind.EXPIRED in kinds(jobs, job.id)

    def test_it_survives_a_database_that_comes_and_goes(self, jobs: FlakyStore, history: FlakyStore) -> None:
        one = build_worker(jobs, history, succeed)
        thread = threading.Thread(target=one.run_until_stopped)
        thread.start()
        try:
            for table in (TABLE, OTHER):
                jobs.unavailable = True
                time.sleep(0.3)
                jobs.unavailable = False
                job = submit(jobs, table)
                wait_until(lambda job=job: jobs.real.get(job.id).state is JobState.SUCCEEDED)
        finally:
            one.stop()
            thread.join(5)

    def test_with_a_dead_engine_it_leaves_the_other_jobs_to_a_new_worker(
        self, jobs: FlakyStore, history: FlakyStore
    ) -> None:
        submit(jobs), submit(jobs, OTHER)
        one = build_worker(jobs, history, fail(), is_healthy=lambda: False)
        assert one.run_until_stopped() is WorkResult.RETURNED
        assert jobs.real.counts()[JobState.QUEUED] == 2


def test_an_idle_worker_registers_and_unregisters(jobs: FlakyStore, history: FlakyStore) -> None:
    calls: list[str] = []

    class Registry:
        def register(self, name: str, lease: timedelta) -> None:
            calls.append(f"{name} registers for {lease.total_seconds():.0f} s")
            waiting.stop()

        def unregister(self, name: str) -> None:
            calls.append(f"{name} unregisters")
            raise EnvironmentFault("The database is unavailable.")

    waiting = build_worker(jobs, history, succeed, registry=Registry())
    assert waiting.run_until_stopped() is WorkResult.IDLE
    assert calls == [f"{waiting.name} registers for 15 s", f"{waiting.name} unregisters"]
