"""Parts that a worker meets: stores that go away, runners that do as they are told."""

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
from icepack.service.maintenance import RunRequest
from icepack.service.retry import PatientHistory
from icepack.service.worker.context import Desk, WorkTerms
from icepack.service.worker.worker import Worker
from icepack.store.queue.reaper import Reaper

TABLE = TableId("lake", ("sales",), "orders")
OTHER = TableId("lake", ("sales",), "customers")
LEASE = timedelta(hours=1)
"""Long: on a busy machine a test must not lose its claim by chance. Those about its end take a short one."""
SHORT_LEASE = timedelta(seconds=0.6)
PATIENCE_SECONDS = 10.0


class Flaky:
    """A store that can go away: all of it, or the next calls of one method before or after they did their work."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.away = False
        self.calls: list[str] = []
        self.fails_before: dict[str, int] = {}
        self.fails_after: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        return found if not callable(found) else lambda *args, **kwargs: self._call(name, found, args, kwargs)

    def _call(self, name: str, found: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        self.calls.append(name)
        if self.away or _used_up(self.fails_before, name):
            raise EnvironmentFault("The state database is away.")
        answer = found(*args, **kwargs)
        if _used_up(self.fails_after, name):
            raise EnvironmentFault("The state database went away before it answered.")
        return answer


def _used_up(counts: dict[str, int], name: str) -> bool:
    left = counts.get(name, 0)
    counts[name] = max(left - 1, 0)
    return left > 0


Deed = Callable[[RunRequest], RunRecord]


class Runs:
    """A runner that does one deed after the other, the last one for ever."""

    def __init__(self, *deeds: Deed) -> None:
        self.deeds = list(deeds)
        self.requests: list[RunRequest] = []

    def run(self, request: RunRequest) -> RunRecord:
        self.requests.append(request)
        deed = self.deeds.pop(0) if len(self.deeds) > 1 else self.deeds[0]
        return deed(request)


def record(request: RunRequest, state: RunState = RunState.SUCCEEDED, **facts: Any) -> RunRecord:
    assert request.job_id is not None
    now = datetime.now(UTC)
    return RunRecord(
        job_id=request.job_id,
        table=request.table,
        action=request.action,
        state=state,
        started_at=now,
        finished_at=now,
        **facts,
    )


def succeed(request: RunRequest) -> RunRecord:
    effect = RealisedEffect(files_rewritten=3, files_added=1, bytes_rewritten=30, bytes_added=25)
    return record(request, effect=effect, commits=(7,))


def fail(*, retryable: bool = True, state: RunState = RunState.FAILED) -> Deed:
    return lambda request: record(request, state, message="It broke.", retryable=retryable)


def until_cancelled(request: RunRequest) -> RunRecord:
    """Spark at work: it stops when it is told to, and has committed nothing."""
    assert request.cancel is not None
    assert request.cancel.wait(PATIENCE_SECONDS), "nobody cancelled it"
    return record(request, RunState.CANCELLED, message="Stopped before anything was committed.")


def through(*steps: Callable[[RunRequest], object]) -> Deed:
    """The steps one after the other; the last one's answer is the record."""

    def deed(request: RunRequest) -> RunRecord:
        answer: Any = None
        for step in steps:
            answer = step(request)
        return answer

    return deed


def soon(condition: Callable[[], Any], what: str = "it") -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen")


def later(seconds: float, deed: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(seconds, deed)
    timer.daemon = True
    timer.start()
    return timer


def submit(jobs: Any, table: TableId = TABLE, **facts: Any) -> Job:
    job: Job = jobs.real.submit(JobRequest(table=table, action=Compact(rewrite_all=True), **facts)).job
    return job


def desk(jobs: Flaky, history: Flaky, runner: Any, **facts: Any) -> Desk:
    terms = {"lease": LEASE, "poll": timedelta(seconds=0.05), "retry_delay": timedelta(seconds=10)}
    terms |= {name: facts.pop(name) for name in list(facts) if name in terms}
    return Desk(
        jobs=jobs,
        runner=runner,
        history=PatientHistory(history),
        reaper=Reaper(jobs, terms["lease"]),
        terms=WorkTerms(**terms),
        **facts,
    )


def worker(jobs: Flaky, history: Flaky, *deeds: Deed, **facts: Any) -> Worker:
    is_fit = facts.pop("is_fit", lambda: True)
    return Worker(desk(jobs, history, Runs(*deeds), **facts), is_fit=is_fit)
