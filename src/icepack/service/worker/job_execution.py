"""One claimed job from start to end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from threading import Event
from typing import TypeVar

from icepack.domain.job import Claim, ClaimLost, Job, JobOutcome, JobProgress, JobState, PhaseMark
from icepack.domain.observability.trace import Phase
from icepack.domain.ports.engine import Progress
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.errors import IcepackError
from icepack.service.maintenance import RunRequest, failed_record, is_dry_run
from icepack.service.runs.trace import JobTrace
from icepack.service.worker.context import Desk, WorkEnd
from icepack.service.worker.heartbeat import Heartbeat

log = logging.getLogger(__name__)

T = TypeVar("T")
MOST_WORKED_ON = 20
MOST_PHASES = 50


class Assignment:
    """The claim, its heartbeat and its run; `carry_out` sees it to its end."""

    def __init__(self, desk: Desk, claim: Claim, since: float) -> None:
        self._desk = desk
        self._claim = claim
        self.trace = JobTrace(desk.tracer, claim.job, claim.worker)
        self._cancel = Event()
        self._stopped = False
        self._progress = JobProgress()
        self._written = self._progress
        self._heart = Heartbeat(
            lambda: desk.jobs.heartbeat(claim),
            claim.lease,
            self._cancel,
            since=since,
            each_second=self._write_progress,
        )

    def stop(self) -> None:
        self._stopped = True
        self._cancel.set()

    def carry_out(self) -> WorkEnd:
        with self._heart, self.trace:
            record = self._run()
            self.trace.end(record)
        self._note_effect(record)
        self._write_trace()
        end = self._settle(record)
        self._complete_history(end, record)
        return end

    def _run(self) -> RunRecord:
        job = self._claim.job
        request = RunRequest(
            table=job.table,
            action=job.action,
            job_id=job.id,
            attempt=job.attempts,
            progress=self._note_progress,
            cancel=self._cancel,
            still_mine=self._heart.confirm,
            phase=self._note_phase,
        )
        self._note_phase(Phase.PLANNING)
        try:
            return self._desk.runner.run(self._desk.prepare(request))
        except Exception as exc:
            log.log(logging.INFO if isinstance(exc, IcepackError) else logging.ERROR, "job %s: %s", job.id, exc)
            return failed_record(request, exc)

    def _note_progress(self, told: Progress) -> None:
        """Written by the heartbeat's thread: the work must not wait for the database."""
        self._progress = replace(
            self._progress,
            partitions_completed=told.groups_done,
            partitions_total=told.groups,
            files_processed=told.files,
            bytes_read=told.bytes_read,
            bytes_written=told.bytes_written,
            working_on=told.working_on[:MOST_WORKED_ON],
        )

    def _note_phase(self, phase: Phase) -> None:
        self.trace.phase(phase)
        begun = self._progress.phases
        if not begun or begun[-1].phase is not phase:
            mark = PhaseMark(phase=phase, started_at=self._desk.clock())
            self._progress = replace(self._progress, phases=(*begun, mark)[-MOST_PHASES:])

    def _note_effect(self, record: RunRecord) -> None:
        """In the end the commits tell, and not what the engine said on its way."""
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
        if progress == self._written or self._heart.lost is not None:
            return
        try:
            self._desk.jobs.progress(self._claim, progress)
            self._written = progress
        except ClaimLost as exc:
            self._heart.lose(exc)
        except Exception as exc:
            log.debug("the progress of job %s could not be written: %s", self._claim.job_id, exc)

    def _write_trace(self) -> None:
        """Before the end is: a job that has ended takes no more writes."""
        if self._heart.lost is not None:
            return
        try:
            self._desk.jobs.trace(self._claim, self.trace.spans)
        except ClaimLost as exc:
            self._heart.lose(exc)
        except Exception as exc:
            log.warning("the trace of job %s could not be written: %s", self._claim.job_id, exc)

    def _settle(self, record: RunRecord) -> WorkEnd:
        """Everything is written with the fence, so a claim that was lost unnoticed changes nothing."""
        if self._heart.lost is not None:
            return self._drop(self._heart.lost)
        try:
            return self._write_end(record)
        except ClaimLost as exc:
            return self._drop(exc)

    def _write_end(self, record: RunRecord) -> WorkEnd:
        if record.state is RunState.SUCCEEDED:
            return self._finish(JobState.SUCCEEDED, record)
        if self._heart.asked_to_cancel:
            return self._finish(JobState.CANCELLED, record)
        if record.state is RunState.CANCELLED and (self._stopped or self._heart.expired):
            return self._hand_back()
        if record.state is RunState.CANCELLED or (record.retryable and self._claim.job.attempts_left):
            return self._retry(record)
        return self._finish(JobState.FAILED, record)

    def _finish(self, state: JobState, record: RunRecord) -> WorkEnd:
        outcome = JobOutcome(state=state, message=record.message, details=to_json(record))
        self._insist("Finishing", lambda: self._desk.jobs.finish(self._claim, outcome))
        return WorkEnd(state.value)

    def _hand_back(self) -> WorkEnd:
        said = "Its worker was told to stop." if self._stopped else "Its worker lost the database for a whole lease."
        return _end_of(self._insist("Handing back", lambda: self._desk.jobs.hand_back(self._claim, said)))

    def _retry(self, record: RunRecord) -> WorkEnd:
        delay = timedelta(0) if self._stopped else self._desk.terms.delay_before_retry(self._claim.job.attempts)
        return _end_of(self._insist("Failing", lambda: self._desk.jobs.fail(self._claim, record.message, delay=delay)))

    def _insist(self, doing: str, call: Callable[[], T]) -> T:
        return self._desk.patience.insist(f"{doing} job {self._claim.job_id}", call)

    def _drop(self, loss: IcepackError) -> WorkEnd:
        log.warning("job %s is dropped: %s", self._claim.job_id, loss)
        return WorkEnd.LOST

    def _complete_history(self, end: WorkEnd, record: RunRecord) -> None:
        """The run may have ended while the database was away; a job that goes on is its next worker's to tell of."""
        if end in (WorkEnd.LOST, WorkEnd.RETURNED):
            self._desk.history.forget(self._claim.job_id)
        elif not is_dry_run(record.action):
            self._desk.history.save(record)


def _end_of(job: Job) -> WorkEnd:
    return WorkEnd(job.state.value) if job.state.is_final else WorkEnd.RETURNED
