"""The jobs that have not ended, page by page: there may be more of them than one answer holds."""

from __future__ import annotations

from collections.abc import Iterator

from icepack.domain.job import Job, JobFilter, JobState
from icepack.domain.ports.queue import JobStore

ACTIVE = frozenset({JobState.QUEUED, JobState.RUNNING})
PAGE = 500


def active_jobs(jobs: JobStore) -> Iterator[Job]:
    """All of them, the newest first."""
    before: int | None = None
    while True:
        page = jobs.list_jobs(JobFilter(states=ACTIVE), limit=PAGE, before=before)
        yield from page.jobs
        if page.next_before is None:
            return
        before = page.next_before
