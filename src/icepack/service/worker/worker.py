"""The worker: claims a job, runs it while its claim is kept alive, and says how it ended."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from uuid import uuid4

from icepack.domain.job import Claim
from icepack.domain.ports.queue import Attendance
from icepack.errors import EnvironmentFault
from icepack.service.worker.context import Desk, WorkEnd
from icepack.service.worker.heartbeat import elapsed_seconds
from icepack.service.worker.job_execution import Assignment
from icepack.service.worker.reaper import reaping
from icepack.tracing import about

log = logging.getLogger(__name__)


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def always() -> bool:
    return True


class Worker:
    """Works on one job at a time, one after the other or only one."""

    def __init__(self, desk: Desk, *, name: str | None = None, is_fit: Callable[[], bool] = always) -> None:
        self.name = name or worker_name()
        self._desk = desk
        self._is_fit = is_fit
        self._stop = Event()
        self._current: Assignment | None = None

    def stop(self) -> None:
        """Claim no more; the running job is cancelled, and handed back if nothing was committed."""
        self._stop.set()
        current = self._current
        if current is not None:
            current.stop()

    def work_once(self) -> WorkEnd:
        claimed = self._claim()
        if claimed is None:
            return WorkEnd.IDLE
        claim, since = claimed
        self._current = assignment = Assignment(self._desk, claim, since)
        with about(job_id=str(claim.job_id), table=str(claim.table), trace_id=assignment.trace.trace_id):
            return self._carry_out(assignment, claim)

    def _carry_out(self, assignment: Assignment, claim: Claim) -> WorkEnd:
        log.info("job %s: %s on %s, attempt %d", claim.job_id, claim.job.kind, claim.table, claim.job.attempts)
        if self._stop.is_set():
            assignment.stop()
        try:
            end = assignment.carry_out()
        finally:
            self._current = None
        log.info("job %s: %s", claim.job_id, end)
        return end

    def work_on(self) -> WorkEnd:
        """Job after job until told to stop, reaping what dead workers left; how the last one ended."""
        with reaping(self._desk.reaper) if self._desk.reaper else nullcontext():
            end = self._work_until_stopped()
        self._tell(lambda attendance: attendance.leave(self.name))
        return end

    def _work_until_stopped(self) -> WorkEnd:
        end = WorkEnd.IDLE
        while not self._stop.is_set():
            end = self.work_once()
            if not self._is_fit():
                log.error("the engine has died; a new worker must go on")
                return WorkEnd.RETURNED
            if end is WorkEnd.IDLE:
                self._tell(lambda attendance: attendance.attend(self.name, self._desk.terms.presence))
                self._stop.wait(self._desk.terms.poll.total_seconds())
        return end

    def _tell(self, say: Callable[[Attendance], None]) -> None:
        """Being counted is nice to have: a database that is away is the claim's to complain about."""
        try:
            if self._desk.attendance is not None:
                say(self._desk.attendance)
        except EnvironmentFault as exc:
            log.debug("not counted: %s", exc)

    def _claim(self) -> tuple[Claim, float] | None:
        """The claim, and the moment from which its lease surely lasts by our own clock."""
        if self._stop.is_set():
            return None

        def ask() -> tuple[Claim | None, float]:
            asked_at = elapsed_seconds()
            return self._desk.jobs.claim(self.name, self._desk.terms.lease), asked_at

        try:
            claim, asked_at = self._desk.patience.insist("Claiming a job", ask, give_up=self._stop)
        except EnvironmentFault:
            return None
        return None if claim is None else (claim, asked_at)
