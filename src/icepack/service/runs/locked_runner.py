"""Runs started by a command hold the table's lock, so that a worker never changes the same table at the same time."""

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
from icepack.domain.ports.locks import TableLock, TableLocks
from icepack.domain.run import RunRecord, RunState
from icepack.errors import EnvironmentFault, IcepackError
from icepack.service.runs.outcome import build_failed_record, is_dry_run
from icepack.service.runs.request import Runner, RunRequest
from icepack.service.runs.trace import RunTrace
from icepack.service.worker.heartbeat import Heartbeat, elapsed_seconds
from icepack.tracing import Tracer

log = logging.getLogger(__name__)

# How often a waiting EitherEvent looks at the other event.
POLL_SECONDS = 0.1


def build_cli_owner() -> str:
    return f"cli:{socket.gethostname()}:{os.getpid()}"


class EitherEvent(Event):
    """Is set if it has been set itself or if another event is set; setting it does not set the other event."""

    def __init__(self, other: Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        end = inf if timeout is None else time.monotonic() + timeout
        while not self.is_set() and time.monotonic() < end:
            super().wait(min(POLL_SECONDS, max(end - time.monotonic(), 0.0)))
        return self.is_set()


class LockedRunner:
    """Holds the table's lock while another runner runs the action.

    A run on a table that another owner has locked is refused; a run that loses its lock is cancelled.
    """

    def __init__(
        self,
        runner: Runner,
        locks: Callable[[], TableLocks],
        *,
        owner: str,
        lease: timedelta = timedelta(seconds=60),
        tracer: Tracer | None = None,
    ) -> None:
        self._runner = runner
        self._locks = locks
        self._owner = owner
        self._lease = lease
        self._tracer = tracer or Tracer()

    def run(self, request: RunRequest) -> RunRecord:
        if is_dry_run(request.action):
            return self._runner.run(request)
        acquired_at = elapsed_seconds()
        try:
            lock = self._locks().acquire(request.table, self._owner, self._lease, str(request.action.kind))
        except IcepackError as exc:
            return build_failed_record(request, exc)
        try:
            return self._run_traced(replace(request, job_id=request.job_id or uuid4()), lock, acquired_at)
        finally:
            self._release(lock)

    def _run_traced(self, request: RunRequest, lock: TableLock, acquired_at: float) -> RunRecord:
        with RunTrace(
            self._tracer,
            icepack__job_id=str(request.job_id),
            icepack__table=str(request.table),
            icepack__action=str(request.action.kind),
        ) as trace:
            trace.phase(Phase.PLANNING)
            record = self._run_with_heartbeat(replace(request, phase=trace.phase), lock, acquired_at)
            trace.end(record)
        return record

    def _run_with_heartbeat(self, request: RunRequest, lock: TableLock, acquired_at: float) -> RunRecord:
        locks = self._locks()

        def renew() -> bool:
            locks.renew(lock, self._lease)
            return False

        cancel = EitherEvent(request.cancel or Event())
        with Heartbeat(renew, self._lease, cancel, since=acquired_at) as heartbeat:
            record = self._runner.run(replace(request, cancel=cancel, confirm_ownership=heartbeat.confirm))
        if heartbeat.lost is not None and record.state is RunState.CANCELLED:
            return replace(record, message=str(heartbeat.lost))
        return record

    def _release(self, lock: TableLock) -> None:
        try:
            self._locks().release(lock)
        except EnvironmentFault as exc:
            log.warning("lock on %s could not be released and will expire: %s", lock.table, exc)
