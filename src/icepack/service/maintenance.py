"""MaintenanceRunner: runs one action on one table and records the run."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import uuid4

from icepack.domain.run import RunRecord, RunState
from icepack.errors import Cancelled
from icepack.service.runs.execution import RunExecution
from icepack.service.runs.outcome import is_dry_run
from icepack.service.runs.request import RunDependencies, RunRequest

log = logging.getLogger(__name__)


class MaintenanceRunner:
    """Runs one action: plans it, retries lost commits, proves the result and records it.

    Every outcome is a RunRecord, never an exception.
    """

    def __init__(self, dependencies: RunDependencies) -> None:
        self._dependencies = dependencies

    def run(self, request: RunRequest) -> RunRecord:
        record = RunRecord(
            job_id=request.job_id or uuid4(),
            table=request.table,
            action=request.action,
            state=RunState.RUNNING,
            started_at=self._dependencies.clock(),
            expected=request.expected,
            estimate=request.estimate,
        )
        execution = RunExecution(
            self._dependencies, request, record, on_start=lambda started: self._save(started, request)
        )
        ended = execution.run()
        finished_at = self._dependencies.clock()
        seconds = (finished_at - record.started_at).total_seconds()
        ended = replace(ended, finished_at=finished_at, realised_seconds=seconds)
        self._save(ended, request)
        return ended

    def _save(self, record: RunRecord, request: RunRequest) -> None:
        if is_dry_run(record.action):
            return
        try:
            if request.attempt is not None:
                # All attempts of a job share one record: a worker that lost the job must not overwrite it.
                request.confirm_ownership()
        except Cancelled as exc:
            log.warning("run record of %s on %s is not saved: %s", record.kind, record.table, exc)
        else:
            self._dependencies.history.save(record)
