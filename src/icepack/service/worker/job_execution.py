"""Runs one claimed job from the claim to its end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Event
from typing import TypeVar

from icepack.clock import utc_now
from icepack.domain.job import Claim, ClaimLost, Job, JobOutcome, JobProgress, JobState, PhaseMark
from icepack.domain.observability.trace import Phase
from icepack.domain.ports.engine import Progress
from icepack.domain.ports.queue import JobStore
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.errors import IcepackError
from icepack.service.retry import DatabaseRetry
from icepack.service.runs.history_store import BufferedHistoryStore
from icepack.service.runs.outcome import build_failed_record, is_dry_run
from icepack.service.runs.request import Runner, RunRequest
from icepack.service.runs.trace import JobTrace
from icepack.service.worker.heartbeat import Heartbeat
from icepack.service.worker.options import WorkerOptions
from icepack.tracing import Tracer

log = logging.getLogger(__name__)

T = TypeVar("T")
# How many partitions that are being rewritten a job's progress lists.
MAX_WORKING_ON = 20
# How many phases a job's progress lists; a run that is planned again goes through them again.
MAX_PHASES = 50


class WorkResult(StrEnum):
    """The result of a worker's attempt to run a job."""

    IDLE = "idle"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    FAILED = "failed"
    # The job is back in the queue and will be retried.
    RETURNED = "returned"
    # Another worker has claimed the job.
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunner:
    """Starts claimed jobs; holds everything that they need."""

    jobs: JobStore
    runner: Runner
    history: BufferedHistoryStore
    options: WorkerOptions = field(default_factory=WorkerOptions)
    tracer: Tracer = field(default_factory=Tracer)
    clock: Callable[[], datetime] = utc_now

    def start(self, claim: Claim, claimed_at: float) -> JobExecution:
        return JobExecution(self, claim, claimed_at)

    @property
    def database_retry(self) -> DatabaseRetry:
        return DatabaseRetry(backoff=self.options.backoff)


class JobExecution:
    """A claimed job with its heartbeat and its trace."""

    def __init__(self, job_runner: JobRunner, claim: Claim, claimed_at: float) -> None:
        self._job_runner = job_runner
        self._jobs = job_runner.jobs
        self._claim = claim
        self.trace = JobTrace(job_runner.tracer, claim.job, claim.worker)
        self._cancel = Event()
        self._stopped = False
        self._progress = JobProgress()
        self._written_progress = self._progress
        self._heartbeat = Heartbeat(
            lambda: self._jobs.heartbeat(claim),
            claim.lease,
            self._cancel,
            since=claimed_at,
            on_tick=self._write_progress,
        )

    def stop(self) -> None:
        self._stopped = True
        self._cancel.set()

    def run(self) -> WorkResult:
        with self._heartbeat, self.trace:
            record = self._run()
            self.trace.end(record)
        self._record_effect(record)
        self._write_trace()
        result = self._write_result(record)
        self._complete_history(result, record)
        return result

    def _run(self) -> RunRecord:
        job = self._claim.job
        request = RunRequest(
            table=job.table,
            action=job.action,
            job_id=job.id,
            attempt=job.attempts,
            progress=self._record_progress,
            cancel=self._cancel,
            confirm_ownership=self._heartbeat.confirm,
            phase=self._record_phase,
        )
        self._record_phase(Phase.PLANNING)
        try:
            return self._job_runner.runner.run(request)
        except Exception as exc:
            level = logging.INFO if isinstance(exc, IcepackError) else logging.ERROR
            log.log(level, "job %s failed: %s", job.id, exc)
            return build_failed_record(request, exc)

    def _record_progress(self, progress: Progress) -> None:
        """Only records it: the heartbeat's thread writes it, so that the run never waits for the database."""
        self._progress = replace(
            self._progress,
            partitions_completed=progress.groups_done,
            partitions_total=progress.groups,
            files_processed=progress.files,
            bytes_read=progress.bytes_read,
            bytes_written=progress.bytes_written,
            working_on=progress.working_on[:MAX_WORKING_ON],
        )

    def _record_phase(self, phase: Phase) -> None:
        self.trace.phase(phase)
        phases = self._progress.phases
        if not phases or phases[-1].phase is not phase:
            mark = PhaseMark(phase=phase, started_at=self._job_runner.clock())
            self._progress = replace(self._progress, phases=(*phases, mark)[-MAX_PHASES:])

    def _record_effect(self, record: RunRecord) -> None:
        """Replaces what the engine reported during the run with what the commits show."""
        effect = record.effect
        self._progress = replace(self._progress, working_on=())
        if record.state is RunState.SUCCEEDED:
            self._progress = replace(
                self._progress,
                partitions_completed=self._progress.partitions_total,
                files_processed=effect.files_rewritten or effect.files_deleted,
                bytes_read=effect.bytes_rewritten,
                bytes_written=effect.bytes_added,
            )
        self._write_progress()

    def _write_progress(self) -> None:
        progress = self._progress
        if progress == self._written_progress or self._heartbeat.lost is not None:
            return
        try:
            self._jobs.progress(self._claim, progress)
            self._written_progress = progress
        except ClaimLost as exc:
            self._heartbeat.lose(exc)
        except Exception as exc:
            log.debug("progress of job %s could not be written: %s", self._claim.job_id, exc)

    def _write_trace(self) -> None:
        """Must be called before the result is written: a job that has ended accepts no more writes."""
        if self._heartbeat.lost is not None:
            return
        try:
            self._jobs.trace(self._claim, self.trace.spans)
        except ClaimLost as exc:
            self._heartbeat.lose(exc)
        except Exception as exc:
            log.warning("trace of job %s could not be written: %s", self._claim.job_id, exc)

    def _write_result(self, record: RunRecord) -> WorkResult:
        """Every write carries the fence, so a worker that lost its claim without noticing changes nothing."""
        if self._heartbeat.lost is not None:
            return self._drop(self._heartbeat.lost)
        try:
            return self._end_job(record)
        except ClaimLost as exc:
            return self._drop(exc)

    def _end_job(self, record: RunRecord) -> WorkResult:
        if record.state is RunState.SUCCEEDED:
            return self._finish(JobState.SUCCEEDED, record)
        if self._heartbeat.asked_to_cancel:
            return self._finish(JobState.CANCELLED, record)
        if record.state is RunState.CANCELLED and (self._stopped or self._heartbeat.expired):
            return self._hand_back()
        if record.state is RunState.CANCELLED or (record.retryable and self._claim.job.attempts_left):
            return self._fail(record)
        return self._finish(JobState.FAILED, record)

    def _finish(self, state: JobState, record: RunRecord) -> WorkResult:
        outcome = JobOutcome(state=state, message=record.message, details=to_json(record))
        self._retry("finishing", lambda: self._jobs.finish(self._claim, outcome))
        return WorkResult(state.value)

    def _hand_back(self) -> WorkResult:
        reason = "The worker was stopped." if self._stopped else "The worker lost the database for a whole lease."
        return _result_of(self._retry("handing back", lambda: self._jobs.hand_back(self._claim, reason)))

    def _fail(self, record: RunRecord) -> WorkResult:
        delay = timedelta(0)
        if not self._stopped:
            delay = self._job_runner.options.delay_before_retry(self._claim.job.attempts)
        return _result_of(self._retry("failing", lambda: self._jobs.fail(self._claim, record.message, delay=delay)))

    def _retry(self, operation: str, call: Callable[[], T]) -> T:
        return self._job_runner.database_retry.run(f"{operation} job {self._claim.job_id}", call)

    def _drop(self, reason: IcepackError) -> WorkResult:
        log.warning("job %s was lost: %s", self._claim.job_id, reason)
        return WorkResult.LOST

    def _complete_history(self, result: WorkResult, record: RunRecord) -> None:
        """Saves the record again in case the run ended during a database outage.

        The record of a job that continues is left to its next worker.
        """
        if result in (WorkResult.LOST, WorkResult.RETURNED):
            self._job_runner.history.discard(self._claim.job_id)
        elif not is_dry_run(record.action):
            self._job_runner.history.save(record)


def _result_of(job: Job) -> WorkResult:
    return WorkResult(job.state.value) if job.state.is_final else WorkResult.RETURNED
