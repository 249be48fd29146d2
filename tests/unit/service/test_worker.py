"""What a worker does with a job, whatever happens to it, the database or the engine meanwhile."""

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
from icepack.service.maintenance import RunRequest
from icepack.service.worker.context import WorkEnd, WorkTerms
from icepack.service.worker.worker import Worker, worker_name

from .parts import (
    OTHER,
    PATIENCE_SECONDS,
    SHORT_LEASE,
    TABLE,
    Flaky,
    Runs,
    desk,
    fail,
    later,
    record,
    soon,
    submit,
    succeed,
    through,
    until_cancelled,
    worker,
)


def kinds(jobs: Flaky, job_id: object) -> list[JobEventKind]:
    return [event.kind for event in jobs.real.events(job_id)]


class TestOneJob:
    def test_an_empty_queue_is_nothing_to_do(self, jobs: Flaky, history: Flaky) -> None:
        assert worker(jobs, history, succeed).work_once() is WorkEnd.IDLE

    def test_a_success_ends_the_job_and_frees_its_table(self, jobs: Flaky, history: Flaky, locks: Flaky) -> None:
        job = submit(jobs)
        runs = Runs(succeed)
        assert Worker(desk(jobs, history, runs)).work_once() is WorkEnd.SUCCEEDED
        ended = jobs.real.get(job.id)
        assert (ended.state, ended.attempts) == (JobState.SUCCEEDED, 1)
        assert ended.details["commits"] == [7]
        assert replace(ended.progress, phases=()) == JobProgress(files_processed=3, bytes_read=30, bytes_written=25)
        assert [mark.phase for mark in ended.progress.phases] == ["planning"]
        assert locks.list_locks() == []
        (request,) = runs.requests
        assert (request.table, request.job_id, request.attempt) == (TABLE, job.id, 1)

    def test_the_table_is_locked_while_the_job_runs(self, jobs: Flaky, history: Flaky, locks: Flaky) -> None:
        submit(jobs)
        seen = []
        one = worker(jobs, history, through(lambda _: seen.extend(locks.list_locks()), succeed))
        one.work_once()
        assert [(lock.table, lock.owner) for lock in seen] == [(TABLE, one.name)]

    def test_the_run_ends_up_in_the_history(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        worker(jobs, history, succeed).work_once()
        (kept,) = history.runs()
        assert (kept.job_id, kept.state) == (job.id, RunState.SUCCEEDED)

    def test_a_dry_run_does_not(self, jobs: Flaky, history: Flaky) -> None:
        request = JobRequest(table=TABLE, action=RemoveOrphanFiles(dry_run=True))
        jobs.real.submit(request)
        assert worker(jobs, history, record).work_once() is WorkEnd.SUCCEEDED
        assert history.runs() == []

    def test_workers_have_names_that_tell_where_they_are(self) -> None:
        host, pid, chance = worker_name().rsplit(":", 2)
        assert host
        assert pid.isdecimal()
        assert chance != worker_name().rsplit(":", 1)[1]


class TestFailures:
    def test_a_failure_worth_it_is_tried_again_after_a_pause(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        assert worker(jobs, history, fail()).work_once() is WorkEnd.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts, again.message) == (JobState.QUEUED, 1, "It broke.")
        assert timedelta(seconds=8) < again.waits_until - jobs.real.now() < timedelta(seconds=10)

    def test_pauses_double_up_to_a_longest_one(self) -> None:
        terms = WorkTerms(retry_delay=timedelta(seconds=30))
        found = [terms.delay_before_retry(attempt).total_seconds() for attempt in (1, 2, 3, 7, 8, 10_000)]
        assert found == [30, 60, 120, 1920, 3600, 3600]

    def test_the_last_attempt_fails_for_good_and_keeps_its_record(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs, max_attempts=1)
        assert worker(jobs, history, fail()).work_once() is WorkEnd.FAILED
        ended = jobs.real.get(job.id)
        assert (ended.state, ended.message) == (JobState.FAILED, "It broke.")
        assert ended.details["state"] == "failed"

    @pytest.mark.parametrize(
        "deed", [fail(retryable=False), fail(retryable=False, state=RunState.REFUSED)], ids=["failed", "refused"]
    )
    def test_what_would_fail_again_is_not_tried_again(self, jobs: Flaky, history: Flaky, deed: object) -> None:
        job = submit(jobs)
        assert worker(jobs, history, deed).work_once() is WorkEnd.FAILED
        assert jobs.real.get(job.id).state is JobState.FAILED

    @pytest.mark.parametrize(
        ("failure", "end"),
        [
            (Refused("Too dear."), WorkEnd.FAILED),
            (CatalogFault("No answer."), WorkEnd.RETURNED),
            (RuntimeError("boom"), WorkEnd.RETURNED),
        ],
    )
    def test_an_exception_before_the_run_is_a_failure_like_any_other(
        self, jobs: Flaky, history: Flaky, failure: Exception, end: WorkEnd
    ) -> None:
        job = submit(jobs)

        def prepare(request: RunRequest) -> RunRequest:
            raise failure

        assert worker(jobs, history, succeed, prepare=prepare).work_once() is end
        assert str(failure) in jobs.real.get(job.id).message

    def test_a_runner_that_breaks_its_promise_crashes_nothing(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)

        def explode(request: RunRequest) -> RunRecord:
            raise ZeroDivisionError("oh")

        assert worker(jobs, history, explode).work_once() is WorkEnd.RETURNED
        assert "ZeroDivisionError: oh" in jobs.real.get(job.id).message


class TestCancelling:
    def test_a_running_job_is_stopped_within_a_heartbeat(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        later(0.05, lambda: jobs.real.cancel(job.id, by="me"))
        assert worker(jobs, history, until_cancelled).work_once() is WorkEnd.CANCELLED
        assert jobs.real.get(job.id).state is JobState.CANCELLED

    def test_what_was_done_before_it_could_be_stopped_is_a_success(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        later(0.05, lambda: jobs.real.cancel(job.id))
        assert worker(jobs, history, through(until_cancelled, succeed)).work_once() is WorkEnd.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED

    def test_stopped_halfway_it_says_so(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        later(0.05, lambda: jobs.real.cancel(job.id))
        assert worker(jobs, history, through(until_cancelled, fail())).work_once() is WorkEnd.CANCELLED
        ended = jobs.real.get(job.id)
        assert (ended.state, ended.message) == (JobState.CANCELLED, "It broke.")


class TestStopping:
    def test_a_running_job_is_handed_back_and_uses_up_no_attempt(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs, max_attempts=1)
        one = worker(jobs, history, until_cancelled)
        later(0.05, one.stop)
        assert one.work_once() is WorkEnd.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts_left, again.waits_until) == (JobState.QUEUED, 1, None)
        assert worker(jobs, history, succeed).work_once() is WorkEnd.SUCCEEDED

    def test_what_was_committed_is_finished(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        one = worker(jobs, history, through(until_cancelled, succeed))
        later(0.05, one.stop)
        assert one.work_once() is WorkEnd.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED

    def test_what_was_committed_in_part_goes_on_at_once(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        one = worker(jobs, history, through(until_cancelled, fail()))
        later(0.05, one.stop)
        assert one.work_once() is WorkEnd.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts, again.waits_until) == (JobState.QUEUED, 1, None)

    def test_a_worker_that_was_told_to_stop_claims_nothing(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        one = worker(jobs, history, succeed)
        one.stop()
        assert one.work_once() is WorkEnd.IDLE
        assert one.work_on() is WorkEnd.IDLE
        assert jobs.real.get(job.id).state is JobState.QUEUED

    def test_told_to_stop_in_the_middle_of_a_claim_it_hands_back(self, jobs: Flaky, history: Flaky) -> None:
        submit(jobs)
        one = worker(jobs, history, until_cancelled)
        claim = jobs.real.claim

        def claim_then_stop(*args: object) -> object:
            claimed = claim(*args)
            one.stop()
            return claimed

        jobs.claim = claim_then_stop
        assert one.work_once() is WorkEnd.RETURNED

    def test_cancelled_for_no_known_reason_it_counts_as_an_attempt(self, jobs: Flaky, history: Flaky) -> None:
        """Else a run that always ends like that would be handed back for ever."""
        job = submit(jobs, max_attempts=1)
        assert worker(jobs, history, fail(state=RunState.CANCELLED)).work_once() is WorkEnd.FAILED
        assert jobs.real.get(job.id).state is JobState.FAILED


class TestLostClaims:
    def test_a_worker_that_lost_its_claim_stops_and_writes_nothing(
        self, jobs: Flaky, history: Flaky, locks: Flaky
    ) -> None:
        job = submit(jobs)
        later(0.05, lambda: locks.break_lock(TABLE, force=True))
        assert worker(jobs, history, until_cancelled).work_once() is WorkEnd.LOST
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts) == (JobState.QUEUED, 1)
        assert history.runs() == []

    def test_a_finish_that_comes_too_late_is_dropped(self, jobs: Flaky, history: Flaky, locks: Flaky) -> None:
        """Broken at the last moment: no heartbeat has noticed."""
        job = submit(jobs)
        deed = through(lambda _: locks.break_lock(TABLE, force=True), succeed)
        assert worker(jobs, history, deed).work_once() is WorkEnd.LOST
        assert jobs.real.get(job.id).state is JobState.QUEUED
        assert history.runs() == []

    def test_the_claim_is_asked_for_right_before_the_table_is_touched(
        self, jobs: Flaky, history: Flaky, locks: Flaky
    ) -> None:
        from icepack.errors import Cancelled

        submit(jobs)

        def touch(request: RunRequest) -> RunRecord:
            request.still_mine()
            locks.break_lock(TABLE, force=True)
            with pytest.raises(Cancelled, match="no longer holds"):
                request.still_mine()
            return succeed(request)

        assert worker(jobs, history, touch).work_once() is WorkEnd.LOST

    def test_a_zombie_does_not_overwrite_its_successors_record(self, jobs: Flaky, history: Flaky, locks: Flaky) -> None:
        job = submit(jobs)

        def be_overtaken(request: RunRequest) -> RunRecord:
            locks.break_lock(TABLE, force=True)
            assert worker(jobs, history, succeed).work_once() is WorkEnd.SUCCEEDED
            return record(request, RunState.FAILED, message="late")

        assert worker(jobs, history, be_overtaken).work_once() is WorkEnd.LOST
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED
        assert [kept.state for kept in history.runs()] == [RunState.SUCCEEDED]
        assert kinds(jobs, job.id).count(JobEventKind.SUCCEEDED) == 1


class TestLostDatabase:
    def test_shorter_than_the_lease_nobody_notices(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)

        def work(request: RunRequest) -> RunRecord:
            jobs.away = True
            assert not request.cancel.wait(1.0)
            jobs.away = False
            assert not request.cancel.wait(0.5)
            return succeed(request)

        assert worker(jobs, history, work).work_once() is WorkEnd.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED

    def test_for_a_whole_lease_the_work_stops_and_is_handed_back_when_it_returns(
        self, jobs: Flaky, history: Flaky
    ) -> None:
        job = submit(jobs, max_attempts=1)

        def work(request: RunRequest) -> RunRecord:
            jobs.away = True
            ended = until_cancelled(request)
            later(0.3, lambda: setattr(jobs, "away", False))
            return ended

        assert worker(jobs, history, work, lease=SHORT_LEASE).work_once() is WorkEnd.RETURNED
        again = jobs.real.get(job.id)
        assert (again.state, again.attempts_left) == (JobState.QUEUED, 1)

    def test_for_a_whole_lease_and_taken_by_another_nothing_is_written(
        self, jobs: Flaky, history: Flaky, locks: Flaky
    ) -> None:
        job = submit(jobs)

        def work(request: RunRequest) -> RunRecord:
            jobs.away = True
            ended = until_cancelled(request)
            locks.break_lock(TABLE, force=True)
            jobs.away = False
            return ended

        assert worker(jobs, history, work, lease=SHORT_LEASE).work_once() is WorkEnd.LOST
        assert jobs.real.get(job.id).attempts == 1

    def test_a_heartbeat_that_hangs_does_not_hide_that_the_lease_ran_out(self, jobs: Flaky, history: Flaky) -> None:
        submit(jobs)
        hung = threading.Event()
        real = jobs.real.heartbeat

        def hang(claim: object) -> bool:
            hung.wait(PATIENCE_SECONDS)
            return real(claim)

        jobs.heartbeat = hang
        deed = through(until_cancelled, lambda request: (hung.set(), request)[1], fail())
        one = worker(jobs, history, deed, lease=SHORT_LEASE)
        assert one.work_once() in (WorkEnd.RETURNED, WorkEnd.LOST)

    def test_a_finish_waits_until_the_database_is_back(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)

        def work(request: RunRequest) -> RunRecord:
            jobs.away = history.away = True
            later(0.5, lambda: (setattr(jobs, "away", False), setattr(history, "away", False)))
            return succeed(request)

        assert worker(jobs, history, work).work_once() is WorkEnd.SUCCEEDED
        assert jobs.real.get(job.id).state is JobState.SUCCEEDED
        assert jobs.calls.count("finish") > 1
        assert [kept.state for kept in history.runs()] == [RunState.SUCCEEDED]

    @pytest.mark.parametrize("method", ["finish"])
    def test_an_end_whose_answer_was_lost_is_said_again(self, jobs: Flaky, history: Flaky, method: str) -> None:
        job = submit(jobs)
        jobs.fails_after[method] = 1
        assert worker(jobs, history, succeed).work_once() is WorkEnd.SUCCEEDED
        assert kinds(jobs, job.id).count(JobEventKind.SUCCEEDED) == 1

    def test_a_return_whose_answer_was_lost_is_not_said_twice(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        jobs.fails_after["fail"] = 1
        assert worker(jobs, history, fail()).work_once() is WorkEnd.RETURNED
        assert kinds(jobs, job.id).count(JobEventKind.RETRIED) == 1

    def test_a_claim_waits_for_the_database(self, jobs: Flaky, history: Flaky) -> None:
        submit(jobs)
        jobs.fails_before["claim"] = 3
        assert worker(jobs, history, succeed).work_once() is WorkEnd.SUCCEEDED

    def test_but_not_when_it_is_told_to_stop(self, jobs: Flaky, history: Flaky) -> None:
        jobs.away = True
        one = worker(jobs, history, succeed)
        later(0.3, one.stop)
        assert one.work_once() is WorkEnd.IDLE

    def test_a_history_that_is_away_stops_no_job(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        history.away = True
        one = worker(jobs, history, succeed)
        assert one.work_once() is WorkEnd.SUCCEEDED
        history.away = False
        assert history.runs() == []
        submit(jobs, OTHER)
        one.work_once()
        assert job.id in {kept.job_id for kept in history.runs()}, "it is written with the next one"


class TestProgress:
    def test_it_is_written_at_most_once_a_second(
        self, jobs: Flaky, history: Flaky, monkeypatch: pytest.MonkeyPatch
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
            return record(request)

        worker(jobs, history, work).work_once()
        written = [progress for progress in dict.fromkeys(seen) if progress != JobProgress()]
        assert 1 <= len(written) <= 3
        assert all(progress.files_processed == 3 * progress.partitions_completed for progress in written)
        assert jobs.real.get(job.id).progress.partitions_completed == 1000

    def test_the_work_does_not_wait_for_it(self, jobs: Flaky, history: Flaky) -> None:
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

        worker(jobs, history, work).work_once()

    def test_a_lost_claim_is_noticed_when_progress_is_written(self, jobs: Flaky, history: Flaky, locks: Flaky) -> None:
        submit(jobs)
        jobs.heartbeat = lambda _: False

        def work(request: RunRequest) -> RunRecord:
            locks.break_lock(TABLE, force=True)
            request.progress(Progress(done=1, total=2, files=1))
            return until_cancelled(request)

        assert worker(jobs, history, work).work_once() is WorkEnd.LOST


class TestLoop:
    def test_it_works_through_the_queue_until_it_is_told_to_stop(self, jobs: Flaky, history: Flaky) -> None:
        submitted = [submit(jobs), submit(jobs, OTHER)]
        one = worker(jobs, history, succeed)
        thread = threading.Thread(target=one.work_on)
        thread.start()
        soon(lambda: all(jobs.real.get(job.id).state is JobState.SUCCEEDED for job in submitted))
        late = submit(jobs)
        soon(lambda: jobs.real.get(late.id).state is JobState.SUCCEEDED)
        one.stop()
        thread.join(2)
        assert not thread.is_alive()

    def test_it_takes_over_what_a_dead_worker_held(self, jobs: Flaky, history: Flaky) -> None:
        job = submit(jobs)
        assert jobs.real.claim("dead", SHORT_LEASE) is not None
        one = worker(jobs, history, succeed, lease=timedelta(seconds=3))
        thread = threading.Thread(target=one.work_on)
        thread.start()
        try:
            soon(lambda: jobs.real.get(job.id).state is JobState.SUCCEEDED)
        finally:
            one.stop()
            thread.join(5)
        assert jobs.real.get(job.id).attempts == 2
        assert JobEventKind.EXPIRED in kinds(jobs, job.id)

    def test_it_survives_a_database_that_comes_and_goes(self, jobs: Flaky, history: Flaky) -> None:
        one = worker(jobs, history, succeed)
        thread = threading.Thread(target=one.work_on)
        thread.start()
        try:
            for table in (TABLE, OTHER):
                jobs.away = True
                time.sleep(0.3)
                jobs.away = False
                job = submit(jobs, table)
                soon(lambda job=job: jobs.real.get(job.id).state is JobState.SUCCEEDED)
        finally:
            one.stop()
            thread.join(5)

    def test_with_its_engine_dead_it_leaves_the_rest_to_a_new_worker(self, jobs: Flaky, history: Flaky) -> None:
        submit(jobs), submit(jobs, OTHER)
        one = worker(jobs, history, fail(), is_fit=lambda: False)
        assert one.work_on() is WorkEnd.RETURNED
        assert jobs.real.counts()[JobState.QUEUED] == 2


def test_a_worker_that_waits_says_that_it_is_there_and_when_it_goes(jobs: Flaky, history: Flaky) -> None:
    said: list[str] = []
    waiting = worker(jobs, history, succeed)

    class Book:
        def attend(self, name: str, lease: timedelta) -> None:
            said.append(f"{name} is there for {lease.total_seconds():.0f} s")
            waiting.stop()

        def leave(self, name: str) -> None:
            said.append(f"{name} leaves")
            raise EnvironmentFault("The database is away.")

    waiting._desk = replace(waiting._desk, attendance=Book())
    assert waiting.work_on() is WorkEnd.IDLE
    assert said == [f"{waiting.name} is there for 15 s", f"{waiting.name} leaves"]
