"""A model of the job queue in plain Python, to compare the real queue with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from icepack.domain.actions import Action
from icepack.domain.job import Claim, Job, JobRequest, JobState


@dataclass
class ModelJob:
    """A job of the model; `last_event` is the kind, the actor and the attempt of its last event."""

    id: UUID
    number: int
    table: str
    catalog: str
    action: Action
    rank: int
    waits_until: datetime | None
    max_attempts: int
    state: JobState = JobState.QUEUED
    attempts: int = 0
    cancel_requested: bool = False
    collapsed_into: UUID | None = None
    last_event: tuple[str, str, int] = ("submitted", "", 0)
    endings: int = 0

    def end(self, state: JobState) -> None:
        assert not self.state.is_final, "a job ended twice"
        self.state = state
        self.endings += 1


@dataclass
class Holder:
    fence: int
    owner: str
    expires_at: datetime
    job: UUID | None


@dataclass
class Model:
    now: datetime
    jobs: dict[UUID, ModelJob] = field(default_factory=dict)
    holders: dict[str, Holder] = field(default_factory=dict)
    keys: dict[str, UUID] = field(default_factory=dict)
    last_turn: dict[str, int] = field(default_factory=dict)
    last_fence: int = 0

    def queued_jobs(self, table: str) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.table == table and job.state is JobState.QUEUED]

    def find_equal(self, request: JobRequest) -> ModelJob | None:
        return next((job for job in self.queued_jobs(str(request.table)) if job.action == request.action), None)

    def find_by_key(self, key: str) -> ModelJob | None:
        job = self.jobs.get(self.keys[key]) if key in self.keys else None
        while job is not None and job.collapsed_into is not None:
            job = self.jobs[job.collapsed_into]
        return job

    def create(self, job: Job) -> None:
        assert all(job.number > other.number for other in self.jobs.values())
        is_waiting = job.not_before is not None and job.not_before > self.now
        self.jobs[job.id] = ModelJob(
            id=job.id,
            number=job.number,
            table=str(job.table),
            catalog=job.table.catalog,
            action=job.action,
            rank=-job.priority,
            waits_until=job.not_before if is_waiting else None,
            max_attempts=job.max_attempts,
        )

    def collapse(self, job: ModelJob, request: JobRequest) -> None:
        job.rank = min(job.rank, -request.priority)
        if job.attempts == 0 and job.waits_until is not None:
            requested = request.not_before
            job.waits_until = None if requested is None else min(requested, job.waits_until)
        job.last_event = ("collapsed", "", job.attempts)

    def next_job(self) -> ModelJob | None:
        """The job with the most urgent rank, then of the catalog whose last claim is oldest, then the oldest job."""
        for job in self.jobs.values():
            if job.waits_until is not None and job.waits_until <= self.now and job.state is JobState.QUEUED:
                job.waits_until = None
        heads: dict[str, ModelJob] = {}
        for job in sorted(self.jobs.values(), key=lambda job: (job.rank, job.number)):
            if job.state is JobState.QUEUED and job.waits_until is None and job.table not in self.holders:
                heads.setdefault(job.table, job)
        return min(
            heads.values(),
            key=lambda job: (job.rank, self.last_turn.get(job.catalog, 0), job.catalog, job.number),
            default=None,
        )

    def start(self, claim: Claim) -> None:
        job = self.jobs[claim.job_id]
        self.hold(job.table, claim.fence, claim.worker, claim.lease, job.id)
        job.state = JobState.RUNNING
        job.attempts += 1
        job.last_event = ("claimed", claim.worker, job.attempts)
        self.last_turn[job.catalog] = claim.fence

    def hold(self, table: str, fence: int, owner: str, lease: timedelta, job: UUID | None = None) -> None:
        assert table not in self.holders, "two holders of one table"
        assert fence > self.last_fence, "a fence did not increase"
        self.last_fence = fence
        self.holders[table] = Holder(fence, owner, self.now + lease, job)

    def holds(self, table: str, fence: int) -> bool:
        return table in self.holders and self.holders[table].fence == fence

    def return_job(
        self, job: ModelJob, kind: str, actor: str, *, retry: bool = True, costs: bool = True, delay: float = 0
    ) -> None:
        del self.holders[job.table]
        if job.cancel_requested:
            job.end(JobState.CANCELLED)
            job.last_event = ("cancelled", actor, job.attempts)
        elif not retry or (costs and job.attempts >= job.max_attempts):
            job.end(JobState.FAILED)
            job.last_event = ("failed", actor, job.attempts)
        else:
            self._requeue(job, delay, extra_attempts=0 if costs else 1)
            job.last_event = (kind, actor, job.attempts)

    def _requeue(self, job: ModelJob, delay: float, extra_attempts: int) -> None:
        for equal in self.queued_jobs(job.table):
            if equal.action == job.action:
                equal.end(JobState.CANCELLED)
                equal.collapsed_into = job.id
                equal.last_event = ("collapsed", "", equal.attempts)
                job.rank = min(job.rank, equal.rank)
        job.state = JobState.QUEUED
        job.max_attempts += extra_attempts
        job.waits_until = self.now + timedelta(seconds=delay) if delay else None

    def expired_tables(self) -> list[str]:
        return [table for table, holder in self.holders.items() if holder.expires_at <= self.now]

    def evict(self, table: str, actor: str) -> None:
        job = self.holders[table].job
        if job is None:
            del self.holders[table]
        else:
            self.return_job(self.jobs[job], "expired", actor)
