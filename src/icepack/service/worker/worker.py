"""The worker: claims a job, runs it while it renews the claim, and writes the result."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from uuid import uuid4

from icepack.domain.job import Claim
from icepack.domain.ports.queue import WorkerRegistry
from icepack.errors import EnvironmentFault
from icepack.service.worker.heartbeat import elapsed_seconds
from icepack.service.worker.job_execution import JobExecution, JobRunner, WorkResult
from icepack.service.worker.reaper import PeriodicReaper, run_reaper
from icepack.tracing import log_context

log = logging.getLogger(__name__)


def generate_worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def always() -> bool:
    return True


class Worker:
    """Runs queued jobs, one at a time."""

    def __init__(
        self,
        job_runner: JobRunner,
        *,
        reaper: PeriodicReaper | None = None,
        registry: WorkerRegistry | None = None,
        name: str | None = None,
        is_healthy: Callable[[], bool] = always,
    ) -> None:
        self.name = name or generate_worker_name()
        self._job_runner = job_runner
        self._options = job_runner.options
        self._reaper = reaper
        self._registry = registry
        self._is_healthy = is_healthy
        self._stop = Event()
        self._current: JobExecution | None = None

    def stop(self) -> None:
        """Claims no more jobs; cancels the running job and hands it back if it has committed nothing."""
        self._stop.set()
        current = self._current
        if current is not None:
            current.stop()

    def run_one_job(self) -> WorkResult:
        claimed = self._claim()
        if claimed is None:
            return WorkResult.IDLE
        claim, claimed_at = claimed
        self._current = execution = self._job_runner.start(claim, claimed_at)
        with log_context(job_id=str(claim.job_id), table=str(claim.table), trace_id=execution.trace.trace_id):
            return self._run(execution, claim)

    def _run(self, execution: JobExecution, claim: Claim) -> WorkResult:
        job = claim.job
        log.info("job %s started: %s on %s, attempt %d", claim.job_id, job.kind, claim.table, job.attempts)
        if self._stop.is_set():
            execution.stop()
        try:
            result = execution.run()
        finally:
            self._current = None
        log.info("job %s ended: %s", claim.job_id, result)
        return result

    def run_until_stopped(self) -> WorkResult:
        """Runs jobs until the worker is stopped, and reclaims jobs of dead workers; returns the last job's result."""
        with run_reaper(self._reaper) if self._reaper else nullcontext():
            result = self._run_jobs()
        self._update_registry(lambda registry: registry.unregister(self.name))
        return result

    def _run_jobs(self) -> WorkResult:
        result = WorkResult.IDLE
        while not self._stop.is_set():
            result = self.run_one_job()
            if not self._is_healthy():
                log.error("engine is not usable any more; a new worker process has to continue")
                return WorkResult.RETURNED
            if result is WorkResult.IDLE:
                self._update_registry(lambda registry: registry.register(self.name, self._options.registration_lease))
                self._stop.wait(self._options.poll.total_seconds())
        return result

    def _update_registry(self, update: Callable[[WorkerRegistry], None]) -> None:
        """Ignores a lost database: the registry is only informative, and the next claim reports the outage."""
        try:
            if self._registry is not None:
                update(self._registry)
        except EnvironmentFault as exc:
            log.debug("worker registry could not be updated: %s", exc)

    def _claim(self) -> tuple[Claim, float] | None:
        """Returns the claim, and the time by our own clock from which its lease certainly runs."""
        if self._stop.is_set():
            return None

        def claim_job() -> tuple[Claim | None, float]:
            asked_at = elapsed_seconds()
            return self._job_runner.jobs.claim(self.name, self._options.lease), asked_at

        try:
            claim, asked_at = self._job_runner.database_retry.run("claiming a job", claim_job, stop=self._stop)
        except EnvironmentFault:
            return None
        return None if claim is None else (claim, asked_at)
