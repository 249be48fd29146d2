"""The worker command up to the point where Spark would start, and the entry point for one job."""

from __future__ import annotations

import pytest

from icepack.cli.commands.worker import exit_code
from icepack.domain.actions import Compact, RewriteManifests
from icepack.domain.job import JobRequest, JobState
from icepack.domain.table import TableId
from icepack.service.worker.job_execution import WorkResult
from icepack.store.backend import Stores
from icepack.worker import main

from .conftest import Call

ORDERS = TableId("lake", ("sales",), "orders")


def test_an_empty_queue_exits_with_0(call: Call, stores: Stores) -> None:
    assert call("worker").code == 0


def test_a_job_of_a_dropped_table_fails(call: Call, stores: Stores) -> None:
    gone = TableId("lake", ("sales",), "gone")
    job = stores.jobs.submit(JobRequest(table=gone, action=Compact())).job
    assert call("worker").code == 1
    ended = stores.jobs.get(job.id)
    assert (ended.state, ended.attempts) == (JobState.FAILED, 1), ended.message


def test_a_job_over_its_cost_limit_is_refused(call: Call, stores: Stores) -> None:
    job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(max_cost_dollars=1e-12))).job
    assert call("worker").code == 1
    assert "over the limit" in stores.jobs.get(job.id).message


@pytest.mark.parametrize(
    ("result", "once", "looping"),
    [
        (WorkResult.IDLE, 0, 0),
        (WorkResult.SUCCEEDED, 0, 0),
        (WorkResult.CANCELLED, 0, 0),
        (WorkResult.FAILED, 1, 0),
        (WorkResult.RETURNED, 75, 75),
        (WorkResult.LOST, 75, 75),
    ],
)
def test_exit_codes(result: WorkResult, once: int, looping: int) -> None:
    assert exit_code(result, loop=False, interrupted=False) == once
    assert exit_code(result, loop=True, interrupted=False) == looping


def test_an_interrupt_counts_only_if_no_job_was_returned_or_succeeded() -> None:
    assert exit_code(WorkResult.IDLE, loop=True, interrupted=True) == 130
    assert exit_code(WorkResult.RETURNED, loop=True, interrupted=True) == 75
    assert exit_code(WorkResult.SUCCEEDED, loop=False, interrupted=True) == 0


@pytest.mark.parametrize("arguments", [[], ["--log-format", "human"]])
def test_the_entry_point_runs_one_job_and_exits_with_its_code(stores: Stores, arguments: list[str]) -> None:
    gone = TableId("lake", ("sales",), "gone")
    jobs = [stores.jobs.submit(JobRequest(table=gone, action=action)).job for action in (Compact(), RewriteManifests())]
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 1
    assert sorted(stores.jobs.get(job.id).state for job in jobs) == [JobState.FAILED, JobState.QUEUED]


def test_the_entry_point_exits_with_0_if_the_queue_is_empty(stores: Stores) -> None:
    with pytest.raises(SystemExit) as exited:
        main([])
    assert exited.value.code == 0
