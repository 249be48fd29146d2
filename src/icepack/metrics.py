"""What the state database says, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from icepack.domain.job import JobState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class JobCounts(Protocol):
    def counts(self) -> Mapping[JobState, int]: ...


class MetricsStore(Protocol):
    @property
    def jobs(self) -> JobCounts: ...


def exposition(store: MetricsStore) -> tuple[bytes, str]:
    """The body and its content type."""
    counts = store.jobs.counts()
    done = {"success": counts[JobState.SUCCEEDED], "failed": counts[JobState.FAILED]}
    lines = ["# HELP compaction_jobs_total Jobs that have ended.", "# TYPE compaction_jobs_total counter"]
    lines += [f'compaction_jobs_total{{status="{status}"}} {count}' for status, count in done.items()]
    return ("\n".join(lines) + "\n").encode(), CONTENT_TYPE
