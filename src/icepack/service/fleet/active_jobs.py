"""Lists the jobs that have not ended, page by page, because one page may not hold all of them."""

from __future__ import annotations

from collections.abc import Iterator

from icepack.domain.job import Job, JobFilter, JobState
from icepack.domain.ports.queue import JobStore

ACTIVE = frozenset({JobState.QUEUED, JobState.RUNNING})
PAGE_SIZE = 500


def list_active_jobs(jobs: JobStore) -> Iterator[Job]:
    """Yields all active jobs, newest first."""
    before: int | None = None
    while True:
        page = jobs.list_jobs(JobFilter(states=ACTIVE), limit=PAGE_SIZE, before=before)
        yield from page.jobs
        if page.next_before is None:
            return
        before = page.next_before
