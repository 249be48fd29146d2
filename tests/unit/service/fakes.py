"""Fakes for the tests of workers and runs: stores that fail on demand, and scripted runners."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from icepack.domain.actions import Compact
from icepack.domain.job import Job, JobRequest
from icepack.domain.run import RealisedEffect, RunRecord, RunState
from icepack.domain.table import TableId
from icepack.errors import EnvironmentFault
from icepack.service.runs.history_store import BufferedHistoryStore
from icepack.service.runs.request import RunRequest
from icepack.service.worker.job_execution import JobRunner
from icepack.service.worker.options import WorkerOptions
from icepack.service.worker.worker import Worker
from icepack.store.queue.expired_claims import ExpiredClaims

TABLE = TableId("lake", ("sales",), "orders")
OTHER = TableId("lake", ("sales",), "customers")
# Long, so that no test loses its claim by chance on a busy machine. Tests of an expired lease use the short one.
LEASE = timedelta(hours=1)
SHORT_LEASE = timedelta(seconds=0.6)
TIMEOUT_SECONDS = 10.0


class FlakyStore:
    """A store that can be unavailable, or fail the next calls of one method before or after they took effect."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.unavailable = False
        self.calls: list[str] = []
        self.fails_before: dict[str, int] = {}
        self.fails_after: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        return found if not callable(found) else lambda *args, **kwargs: self._call(name, found, args, kwargs)

    def _call(self, name: str, found: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.calls.append(name)
        if self.unavailable or _used_up(self.fails_before, name):
            raise EnvironmentFault("The state database is unavailable.")
        answer = found(*args, **kwargs)
        if _used_up(self.fails_after, name):
            raise EnvironmentFault("The state database failed before it answered.")
        return answer


def _used_up(counts: dict[str, int], name: str) -> bool:
    left = counts.get(name, 0)
    counts[name] = max(left - 1, 0)
    return left > 0


RunScript = Callable[[RunRequest], RunRecord]


class ScriptedRunner:
    """A runner that plays one script per run, and the last one for all further runs."""

    def __init__(self, *scripts: RunScript) -> None:
        self.scripts = list(scripts)
        self.requests: list[RunRequest] = []

    def run(self, request: RunRequest) -> RunRecord:
        self.requests.append(request)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return script(request)


def build_record(request: RunRequest, state: RunState = RunState.SUCCEEDED, **fields: Any) -> RunRecord:
    assert request.job_id is not None
    now = datetime.now(UTC)
    return RunRecord(
        job_id=request.job_id,
        table=request.table,
        action=request.action,
        state=state,
        started_at=now,
        finished_at=now,
        **fields,
    )


def succeed(request: RunRequest) -> RunRecord:
    effect = RealisedEffect(files_rewritten=3, files_added=1, bytes_rewritten=30, bytes_added=25)
    return build_record(request, effect=effect, commits=(7,))


def fail(*, retryable: bool = True, state: RunState = RunState.FAILED) -> RunScript:
    return lambda request: build_record(request, state, message="It broke.", retryable=retryable)


def run_until_cancelled(request: RunRequest) -> RunRecord:
    """Runs until it is cancelled, and has committed nothing."""
    assert request.cancel is not None
    assert request.cancel.wait(TIMEOUT_SECONDS), "the run was not cancelled"
    return build_record(request, RunState.CANCELLED, message="Stopped before anything was committed.")


def run_steps(*steps: Callable[[RunRequest], object]) -> RunScript:
    """Runs the steps in order; the last one returns the record."""

    def run_all(request: RunRequest) -> RunRecord:
        result: Any = None
        for step in steps:
            result = step(request)
        return result

    return run_all


def wait_until(condition: Callable[[], Any], what: str = "it") -> Any:
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen")


def call_later(seconds: float, call: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


def submit(jobs: Any, table: TableId = TABLE, **fields: Any) -> Job:
    job: Job = jobs.real.submit(JobRequest(table=table, action=Compact(rewrite_all=True), **fields)).job
    return job


def build_job_runner(jobs: FlakyStore, history: FlakyStore, runner: Any, **options: Any) -> JobRunner:
    defaults = {"lease": LEASE, "poll": timedelta(seconds=0.05), "retry_delay": timedelta(seconds=10)}
    chosen = {name: options.pop(name, default) for name, default in defaults.items()}
    return JobRunner(
        jobs=jobs,
        runner=runner,
        history=BufferedHistoryStore(history),
        options=WorkerOptions(**chosen),
        **options,
    )


def build_worker(jobs: FlakyStore, history: FlakyStore, *scripts: RunScript, **options: Any) -> Worker:
    facts = {name: options.pop(name) for name in ("is_healthy", "registry") if name in options}
    job_runner = build_job_runner(jobs, history, ScriptedRunner(*scripts), **options)
    reaper = ExpiredClaims(jobs, job_runner.options.lease)
    return Worker(job_runner, reaper=reaper, **facts)
