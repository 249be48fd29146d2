"""How far an action is: Spark's own record of the jobs that carry its tag, and what Iceberg calls them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icepack.domain.ports.engine import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.5
MOST_JOBS = 200
"""That one look goes back over."""

_GROUP = re.compile(r"Rewriting (\d+) files \(.*?file group \d+/(\d+)(?:, (.*?) \(\d+/\d+\)\))?")
_PARTITION = re.compile(r"(?:PartitionData)?\{(.*)\}")


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of files that was rewritten."""

    files: int
    bytes_read: int
    bytes_written: int


class Watch:
    """What one action has done so far, found by the tag of its Spark jobs."""

    def __init__(self, session: SparkSession | None, tag: str) -> None:
        self._tag = tag
        self._before = _newest(session) if session is not None else -1
        self._done: dict[int, _Group] = {}
        self._groups = 0
        self._working_on: list[str] = []
        self._looked_at = 0.0
        self._told: Progress | None = None

    def news(self, session: SparkSession) -> Progress | None:
        """Where it stands, if that has changed; asked too often, it does not look."""
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = time.monotonic()
        self._look(session)
        found = self._by_groups() if self._groups else _by_tasks(session)
        if found is None or found == self._told:
            return None
        self._told = found
        return found

    def _look(self, session: SparkSession) -> None:
        store = _store(session)
        self._working_on = []
        jobs = store.jobsList(None)
        for position in range(min(jobs.size(), MOST_JOBS)):
            job = jobs.apply(position)
            number = int(job.jobId())
            if number <= self._before:
                return
            if number not in self._done:
                self._note(store, job, number)

    def _note(self, store: Any, job: Any, number: int) -> None:
        described = job.description()
        group = _GROUP.search(described.get()) if described.isDefined() else None
        if group is None or not job.jobTags().contains(self._tag):
            return
        self._groups = int(group[2])
        if str(job.status()) == "SUCCEEDED":
            read, written = _bytes(store, job.stageIds())
            self._done[number] = _Group(int(group[1]), read, written)
        elif str(job.status()) == "RUNNING" and group[3]:
            self._working_on.append(_path(group[3]))

    def _by_groups(self) -> Progress:
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


def _path(partition: str) -> str:
    """As Iceberg writes it for people, without its braces: day=2026-01-14, region=eu."""
    found = _PARTITION.fullmatch(partition)
    return found[1].replace(", ", "/") if found else partition


def _store(session: SparkSession) -> Any:
    return session.sparkContext._jsc.sc().statusStore()


def _newest(session: SparkSession) -> int:
    jobs = _store(session).jobsList(None)
    return int(jobs.apply(0).jobId()) if jobs.size() else -1


def _bytes(store: Any, stage_ids: Any) -> tuple[int, int]:
    from py4j.protocol import Py4JJavaError

    read = written = 0
    for position in range(stage_ids.size()):
        try:
            stage = store.lastStageAttempt(stage_ids.apply(position))
        except Py4JJavaError:
            # A stage that was skipped has left no figures.
            continue
        read += int(stage.inputBytes())
        written += int(stage.outputBytes())
    return read, written


def _by_tasks(session: SparkSession) -> Progress | None:
    tracker = session.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    total = sum(stage.numTasks for stage in known)
    return Progress(done=sum(stage.numCompletedTasks for stage in known), total=total) if total else None
