"""Derives the progress of an action from Spark's status store and from the descriptions that Iceberg gives its jobs."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icepack.domain.ports.engine import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The minimum time between two reads of the status store.
POLL_INTERVAL_SECONDS = 0.5
# The maximum number of recent jobs that one poll examines.
MAX_JOBS = 200

_GROUP_DESCRIPTION = re.compile(r"Rewriting (\d+) files \(.*?file group \d+/(\d+)(?:, (.*?) \(\d+/\d+\)\))?")
_PARTITION = re.compile(r"(?:PartitionData)?\{(.*)\}")


@dataclass(frozen=True, slots=True)
class _RewrittenGroup:
    """The size of a file group that was rewritten."""

    files: int
    bytes_read: int
    bytes_written: int


class SparkJobProgress:
    """Tracks the progress of one action, whose Spark jobs have a tag."""

    def __init__(self, session: SparkSession | None, tag: str) -> None:
        self._tag = tag
        self._last_job_before = _newest_job_id(session) if session is not None else -1
        self._done: dict[int, _RewrittenGroup] = {}
        self._groups = 0
        self._working_on: list[str] = []
        self._polled_at = 0.0
        self._reported: Progress | None = None

    def poll(self, session: SparkSession) -> Progress | None:
        """Returns the progress if it has changed; returns None if it was called again too soon."""
        if time.monotonic() - self._polled_at < POLL_INTERVAL_SECONDS:
            return None
        self._polled_at = time.monotonic()
        self._read_jobs(session)
        progress = self._group_progress() if self._groups else _task_progress(session)
        if progress is None or progress == self._reported:
            return None
        self._reported = progress
        return progress

    def _read_jobs(self, session: SparkSession) -> None:
        store = _status_store(session)
        self._working_on = []
        jobs = store.jobsList(None)
        for position in range(min(jobs.size(), MAX_JOBS)):
            job = jobs.apply(position)
            job_id = int(job.jobId())
            if job_id <= self._last_job_before:
                return
            if job_id not in self._done:
                self._add_job(store, job, job_id)

    def _add_job(self, store: Any, job: Any, job_id: int) -> None:
        description = job.description()
        group = _GROUP_DESCRIPTION.search(description.get()) if description.isDefined() else None
        if group is None or not job.jobTags().contains(self._tag):
            return
        self._groups = int(group[2])
        if str(job.status()) == "SUCCEEDED":
            read, written = _stage_bytes(store, job.stageIds())
            self._done[job_id] = _RewrittenGroup(int(group[1]), read, written)
        elif str(job.status()) == "RUNNING" and group[3]:
            self._working_on.append(_partition_path(group[3]))

    def _group_progress(self) -> Progress:
        done = self._done.values()
        return Progress(
            done=len(done),
            total=self._groups,
            groups_done=len(done),
            groups=self._groups,
            files=sum(group.files for group in done),
            bytes_read=sum(group.bytes_read for group in done),
            bytes_written=sum(group.bytes_written for group in done),
            working_on=tuple(sorted(set(self._working_on))),
        )


def _partition_path(partition: str) -> str:
    """Converts Iceberg's description, such as `{day=2026-01-14, region=eu}`, into a partition path."""
    found = _PARTITION.fullmatch(partition)
    return found[1].replace(", ", "/") if found else partition


def _status_store(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc().statusStore()


def _newest_job_id(session: SparkSession) -> int:
    jobs = _status_store(session).jobsList(None)
    return int(jobs.apply(0).jobId()) if jobs.size() else -1


def _stage_bytes(store: Any, stage_ids: Any) -> tuple[int, int]:
    from py4j.protocol import Py4JJavaError

    read = written = 0
    for position in range(stage_ids.size()):
        try:
            stage = store.lastStageAttempt(stage_ids.apply(position))
        except Py4JJavaError:
            # A skipped stage has no metrics.
            continue
        read += int(stage.inputBytes())
        written += int(stage.outputBytes())
    return read, written


def _task_progress(session: SparkSession) -> Progress | None:
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    total = sum(stage.numTasks for stage in known)
    return Progress(done=sum(stage.numCompletedTasks for stage in known), total=total) if total else None
