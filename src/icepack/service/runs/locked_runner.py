"""Runs by hand hold the table's lock, so that they and a worker never touch one table together."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from math import inf
from threading import Event
from uuid import uuid4

from icepack.domain.observability.trace import Phase
from icepack.domain.ports.queue import TableLock, TableLocks
from icepack.domain.run import RunRecord, RunState
from icepack.errors import EnvironmentFault, IcepackError
from icepack.service.maintenance import MaintenanceRunner, RunRequest, RunTools, failed_record, is_dry_run
from icepack.service.runs.trace import RunTrace
from icepack.service.worker.heartbeat import Heartbeat, elapsed_seconds
from icepack.tracing import Tracer

log = logging.getLogger(__name__)

GLANCE_SECONDS = 0.1


def cli_owner() -> str:
    return f"cli:{socket.gethostname()}:{os.getpid()}"


class EitherEvent(Event):
    """Set when it is, or when the other is; the other, which may be meant for more than this run, is left alone."""

    def __init__(self, other: Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        end = inf if timeout is None else time.monotonic() + timeout
        while not self.is_set() and time.monotonic() < end:
            super().wait(min(GLANCE_SECONDS, max(end - time.monotonic(), 0.0)))
        return self.is_set()


class LockingRunner(MaintenanceRunner):
    """A table that another holds is refused; a lock that is lost on the way stops the work."""

    def __init__(
        self,
        tools: RunTools,
        locks: Callable[[], TableLocks],
        *,
        owner: str,
        lease: timedelta = timedelta(seconds=60),
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(tools)
        self._locks = locks
        self._owner = owner
        self._lease = lease
        self._tracer = tracer or Tracer()

    def run(self, request: RunRequest) -> RunRecord:
        if is_dry_run(request.action):
            return super().run(request)
        since = elapsed_seconds()
        try:
            lock = self._locks().acquire(request.table, self._owner, self._lease, str(request.action.kind))
        except IcepackError as exc:
            return failed_record(request, exc)
        try:
            return self._run_traced(replace(request, job_id=request.job_id or uuid4()), lock, since)
        finally:
            self._release(lock)

    def _run_traced(self, request: RunRequest, lock: TableLock, since: float) -> RunRecord:
        with RunTrace(
            self._tracer,
            icepack__job_id=str(request.job_id),
            icepack__table=str(request.table),
            icepack__action=str(request.action.kind),
        ) as trace:
            trace.phase(Phase.PLANNING)
            record = self._run_holding(replace(request, phase=trace.phase), lock, since)
            trace.end(record)
        return record

    def _run_holding(self, request: RunRequest, lock: TableLock, since: float) -> RunRecord:
        locks = self._locks()

        def renew() -> bool:
            locks.renew(lock, self._lease)
            return False

        cancel = EitherEvent(request.cancel or Event())
        with Heartbeat(renew, self._lease, cancel, since=since) as heart:
            record = super().run(replace(request, cancel=cancel, still_mine=heart.confirm))
        if heart.lost is not None and record.state is RunState.CANCELLED:
            return replace(record, message=str(heart.lost))
        return record

    def _release(self, lock: TableLock) -> None:
        try:
            self._locks().release(lock)
        except EnvironmentFault as exc:
            log.warning("the lock on %s will end by itself: %s", lock.table, exc)
