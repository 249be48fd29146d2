"""Listing jobs: pages and filters."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from contract.queue_harness import DONE, Queue
from icepack.domain.actions import ExpireSnapshots
from icepack.domain.job import (
    JobFilter,
    JobState,
)


def test_jobs_are_listed_newest_first_page_by_page(queue: Queue) -> None:
    made = [queue.submit(f"lake.sales.t{number}") for number in range(7)]
    pages, before = [], None
    while True:
        page = queue.jobs.list_jobs(limit=3, before=before)
        pages.append([job.id for job in page.jobs])
        before = page.next_before
        if before is None:
            break
        queue.submit(f"lake.sales.late{before}")
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [job_id for page in pages for job_id in page] == [job.id for job in reversed(made)]


def test_a_full_last_page_is_the_last(queue: Queue) -> None:
    queue.submit("lake.sales.a")
    queue.submit("lake.sales.b")
    assert queue.jobs.list_jobs(limit=2).next_before is None


def test_lists_apply_all_filters(queue: Queue) -> None:
    orders = queue.submit(priority=9, requester="ann")
    returns = queue.submit("lake.sales.returns", ExpireSnapshots(), requester="bob")
    other = queue.submit("other.sales.orders", requester="bob")
    claim = queue.claim()

    def found(**options: object) -> list[UUID]:
        return [job.id for job in queue.jobs.list_jobs(JobFilter(**options)).jobs]  # type: ignore[arg-type]

    assert claim.job_id == orders.id
    assert found() == [other.id, returns.id, orders.id]
    assert found(states=frozenset({JobState.RUNNING})) == [orders.id]
    assert found(states=frozenset({JobState.RUNNING, JobState.QUEUED}), catalog="lake") == [returns.id, orders.id]
    assert found(table=orders.table) == [orders.id]
    assert found(kind=orders.kind) == [other.id, orders.id]
    assert found(requester="bob", kind=orders.kind) == [other.id]
    assert queue.jobs.list_jobs(JobFilter(table=orders.table)).jobs[0] == claim.job


def test_lists_filter_by_time(queue: Queue) -> None:
    ended = queue.submit()
    queue.jobs.finish(queue.claim(), DONE)
    queue.clock.shift(timedelta(hours=2))
    noon = queue.clock.read()
    open_still = queue.submit("lake.sales.returns")

    def found(**options: object) -> list[UUID]:
        return [job.id for job in queue.jobs.list_jobs(JobFilter(**options)).jobs]  # type: ignore[arg-type]

    assert found(since=noon - timedelta(hours=3)) == [open_still.id, ended.id]
    assert found(since=noon - timedelta(hours=1)) == [open_still.id]
    assert found(since=noon + timedelta(hours=9)) == [open_still.id], "it is not finished yet"
    assert found(until=noon) == [ended.id]
