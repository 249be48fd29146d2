"""Writes a week of jobs into the state database, through the store itself but with a clock that can be set.

Only the screens are tested with these jobs. The workflow tests cover jobs that really run, fail and are retried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, bindparam

from icepack.domain.actions import Action, ActionKind, Compact, ExpireSnapshots, RemoveOrphanFiles, RewriteManifests
from icepack.domain.job import Claim, Job, JobOutcome, JobProgress, JobRequest, JobState, PhaseMark
from icepack.domain.observability.trace import Phase, Span, TraceContext
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.ports.audit import AuditEvent
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.run import Proof, RealisedEffect, RunRecord, RunState, Totals
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.domain.verification import (
    ColumnDifference,
    FileClass,
    Mismatch,
    NativeDisabled,
    ProofLevel,
    ValueProof,
)
from icepack.store.backend import Stores, open_stores
from icepack.store.jobs import SqlJobStore
from icepack.store.sql.clock import DatabaseClock
from icepack.store.sql.types import UtcDateTime

MIB = 2**20
WORKER = "worker-1:4711:5f3c"
LEASE = timedelta(hours=6)
SECOND = timedelta(seconds=1)
MARKUP = "<img src=x onerror=alert(1)>"
ODD = TableId("lake", ("web",), MARKUP)
STORAGE_ERROR = (
    "part-00007-7f2e.parquet of lake.web.page_views could not be read: the storage did not answer within 30 s. "
    "Check that the worker reaches the storage, then try again."
)
MISMATCH_TABLE = TableId("lake", ("shop",), "orders")
MISMATCH_MESSAGE = f"The native rewrite changed values of column {MARKUP}; nothing of it was committed."
MISMATCH = Mismatch(
    snapshot_id=4_011_245_118,
    partition="day=2026-01-14",
    classes=(FileClass("7f3a", {"created_by": MARKUP}),),
    files=("s3://lake/1.parquet",),
    rows_before=2_400_000,
    rows_after=2_400_000,
    differences=(ColumnDifference(column=MARKUP, measure="hash_1", before="-17", after="42"),),
    kernel_version="1",
)
VALUE_PROOF = ValueProof(level=ProofLevel.SAMPLED, groups=11, groups_compared=2, spark_groups=1)
MISMATCH_PROOF = ValueProof(level=ProofLevel.SAMPLED, spark_groups=1, commits_compared=1, mismatch=MISMATCH)
NIGHTLY = ("web.page_views", "iot.sensor_readings", "app.sessions", "shop.orders", "crm.customers")
DAYS = 7


class SettableClock(DatabaseClock):
    """A database clock that returns the time it was set to."""

    def __init__(self) -> None:
        self.current = datetime.now(UTC)

    def _current_time(self) -> ColumnElement[datetime]:
        return bindparam(None, callable_=lambda: self.current, type_=UtcDateTime(), unique=True)


@dataclass(frozen=True)
class SampleJobs:
    """Ids of jobs that tests open."""

    running: UUID
    queued: UUID
    failed: UUID
    succeeded: UUID
    odd: UUID
    mismatched: UUID


class SampleJobWriter:
    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._clock = SettableClock()
        self._jobs = SqlJobStore(stores.engine, self._clock)
        self._now = datetime.now(UTC).replace(microsecond=0)

    def write(self) -> SampleJobs:
        last = [self._write_night(days) for days in range(DAYS, 0, -1)][-1]
        failed, odd = self._write_failures()
        running, queued = self._write_active()
        self._audit()
        mismatched = self._write_mismatch(failed)
        return SampleJobs(
            running=running.id,
            queued=queued.id,
            failed=failed.id,
            succeeded=last.id,
            odd=odd.id,
            mismatched=mismatched.id,
        )

    def _write_night(self, days_ago: int) -> Job:
        """A night in which every job succeeds; returns the first compaction."""
        start = self._now - timedelta(days=days_ago, hours=5)
        weight = 1 + (days_ago * 3) % 5
        first = self._succeed(NIGHTLY[0], Compact(), start, seconds=95 + 20 * weight, files=120 * weight)
        for place, name in enumerate(NIGHTLY[1:], 1):
            at = start + timedelta(minutes=7 * place)
            self._succeed(name, Compact(), at, seconds=20 + 9 * weight + place, files=40 * weight + place)
        later = start + timedelta(hours=1)
        self._succeed(NIGHTLY[days_ago % 5], RewriteManifests(), later, seconds=6, files=0)
        self._succeed(NIGHTLY[1], ExpireSnapshots(), later + timedelta(minutes=9), seconds=14, files=0)
        return first

    def _write_failures(self) -> tuple[Job, Job]:
        at = self._now - timedelta(hours=2, minutes=40)
        failed = self._fail("lake.web.page_views", Compact(), at, STORAGE_ERROR, attempts=3)
        odd = self._fail(
            str(ODD), RewriteManifests(), at + timedelta(minutes=12), f"No such thing: {MARKUP}", attempts=1
        )
        self._set_clock(at + timedelta(minutes=20))
        gone = self._submit("lake.crm.customers", RemoveOrphanFiles(), requester=MARKUP)
        self._jobs.cancel(gone.id, by="key:ann")
        return failed, odd

    def _write_active(self) -> tuple[Job, Job]:
        self._set_clock(self._now - timedelta(minutes=3))
        running = self._submit("lake.iot.sensor_readings", Compact(), estimated_seconds=480)
        claim = self._claim()
        start = self._now - timedelta(minutes=3)
        done = JobProgress(
            partitions_completed=5,
            partitions_total=12,
            files_processed=148,
            bytes_read=931 * MIB,
            bytes_written=842 * MIB,
            working_on=self._paths("lake.iot.sensor_readings")[-3:-1],
            phases=(
                PhaseMark(phase=Phase.PLANNING, started_at=start),
                PhaseMark(phase=Phase.EXECUTION, started_at=start + 16 * SECOND),
            ),
        )
        self._jobs.progress(claim, done)
        self._set_clock(self._now - timedelta(seconds=20))
        self._submit("lake.app.sessions", ExpireSnapshots(), estimated_seconds=25)
        self._claim()
        self._set_clock(self._now - timedelta(seconds=8))
        queued = self._submit("lake.app.sessions", Compact(), estimated_seconds=310)
        self._submit("lake.crm.customers", Compact(), not_before=self._now + timedelta(hours=4), requester="scheduler")
        return running, queued

    def _succeed(self, name: str, action: Action, at: datetime, *, seconds: float, files: int) -> Job:
        self._set_clock(at)
        job = self._submit(f"lake.{name}", action, estimated_seconds=seconds * 0.9, requester="scheduler")
        self._set_clock(at + 2 * SECOND)
        claim = self._claim()
        record = _record(job, at + 2 * SECOND, seconds, files)
        self._jobs.trace(claim, _spans(claim, at + 2 * SECOND, seconds))
        self._jobs.progress(claim, JobProgress(partitions_completed=9, partitions_total=9, files_processed=files))
        self._set_clock(at + (2 + seconds) * SECOND)
        self._jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED, details=to_json(record)))
        self._stores.history.save(record)
        return job

    def _fail(self, name: str, action: Action, at: datetime, message: str, *, attempts: int) -> Job:
        self._set_clock(at)
        job = self._submit(name, action, max_attempts=attempts, estimated_seconds=60.0, requester="scheduler")
        for attempt in range(1, attempts + 1):
            begin = at + timedelta(minutes=2 * attempt)
            self._set_clock(begin)
            claim = self._claim()
            self._jobs.trace(claim, _spans(claim, begin, 41.0, message))
            self._set_clock(begin + 41 * SECOND)
            if attempt < attempts:
                self._jobs.fail(claim, message, delay=timedelta(seconds=30))
        record = RunRecord(
            job_id=job.id, table=job.table, action=job.action, state=RunState.FAILED, started_at=begin,
            finished_at=begin + 41 * SECOND, attempts=attempts, message=message, retryable=attempts > 1,
            error="StorageUnreachable" if attempts > 1 else "CatalogFault", before=_totals(180, 1400 * MIB, 62),
            estimate=CostEstimate(duration_seconds=60, compute_seconds=110, dollars=0.0021), realised_seconds=41.0,
        )  # fmt: skip
        self._jobs.finish(claim, JobOutcome(state=JobState.FAILED, message=message, details=to_json(record)))
        self._stores.history.save(record)
        return job

    def _write_mismatch(self, after: Job) -> Job:
        """A job whose value comparison found a difference and disabled the native rewrite for its table."""
        at = after.submitted_at + timedelta(minutes=30)
        self._set_clock(at)
        job = self._submit(str(MISMATCH_TABLE), Compact(), requester="scheduler")
        claim = self._claim()
        record = replace(_record(job, at, 40, 60), message=MISMATCH_MESSAGE, value_proof=MISMATCH_PROOF)
        self._set_clock(at + 40 * SECOND)
        self._jobs.finish(
            claim, JobOutcome(state=JobState.SUCCEEDED, message=MISMATCH_MESSAGE, details=to_json(record))
        )
        self._stores.history.save(record)
        self._stores.verification.disable_native(
            NativeDisabled(
                table=MISMATCH_TABLE,
                table_uuid="",
                disabled_at=at,
                reason=MISMATCH_MESSAGE,
                job_id=job.id,
                mismatch=MISMATCH,
            )
        )
        return job

    def _paths(self, name: str) -> tuple[str, ...]:
        cached = self._stores.cache.get(TableId.parse(name))
        assert cached is not None
        return tuple(partition.key.path for partition in cached.status.partitions)

    def _audit(self) -> None:
        for minutes, actor, action, subject, outcome, details in _AUDIT:
            facts = {"actor": actor, "action": action, "subject": subject, "outcome": outcome}
            at = self._now - timedelta(minutes=minutes)
            self._stores.audit.record(AuditEvent(at=at, origin="10.0.0.7", details=details, **facts))

    def _set_clock(self, moment: datetime) -> None:
        self._clock.current = moment

    def _submit(self, name: str, action: Action, **options: object) -> Job:
        request = JobRequest(table=TableId.parse(name), action=action, **{"requester": "key:ann", **options})  # type: ignore[arg-type]
        return self._jobs.submit(request).job

    def _claim(self) -> Claim:
        claim = self._jobs.claim(WORKER, LEASE)
        assert claim is not None
        return claim


_AUDIT: tuple[tuple[int, str, str, str, str, dict[str, object]], ...] = (
    (4000, "key:ann", "api.keys.create", "ci", "operator on lake.shop*", {"key_id": "0123456789abcdef"}),
    (
        2900, "key:ann", "api.policies.put", "policies", "version 1",
        {"before": [], "after": [{"match": "shop.*", "target_file_size": "256MB"}]},
    ),
    (700, "key:ci", "api.jobs.submit", "lake.shop.orders", "created", {"table": "lake.shop.orders"}),
    (171, "key:guest", "api.denied", "lake.web.page_views", "needs operator", {"table": "lake.web.page_views"}),
    (140, "key:ann", "api.jobs.cancel", "lake.crm.customers", "cancelled", {"table": "lake.crm.customers"}),
    (20, f"key:{MARKUP}", "api.session.open", MARKUP, "opened", {}),
)  # fmt: skip


def _spans(claim: Claim, start: datetime, seconds: float, failure: str = "") -> list[Span]:
    """Spans of a run and of its planning, execution and commit phases; a failure happens during execution."""
    run = _span("run", start, seconds, failure, None)
    shares = {Phase.PLANNING: 0.12, Phase.EXECUTION: 0.88 if failure else 0.8, Phase.COMMIT: 0.0 if failure else 0.08}
    found, at = [run], start
    for phase, share in shares.items():
        if share:
            failed = failure if phase is Phase.EXECUTION else ""
            found.append(_span(phase.value, at, seconds * share, failed, run.context.span_id))
            at += seconds * share * SECOND
    return found


def _span(name: str, start: datetime, seconds: float, failure: str, parent: str | None) -> Span:
    number = abs(hash((name, start)))
    context = TraceContext(trace_id=f"{number or 1:032x}"[:32], span_id=f"{number or 1:016x}"[:16])
    return Span(
        name=name,
        context=context,
        parent_id=parent,
        started_at=start,
        ended_at=start + seconds * SECOND,
        failure=failure,
    )


def _record(job: Job, start: datetime, seconds: float, files: int) -> RunRecord:
    after = max(files // 14, 1)
    volume = files * 7 * MIB
    effect = RealisedEffect(
        files_rewritten=files,
        files_added=after if files else 0,
        bytes_rewritten=volume,
        bytes_added=int(volume * 0.94),
        manifests_before=31,
        manifests_after=6 if job.kind is ActionKind.REWRITE_MANIFESTS else 31,
        snapshots_removed=44 if job.kind is ActionKind.EXPIRE_SNAPSHOTS else 0,
        files_deleted=260 if job.kind is ActionKind.EXPIRE_SNAPSHOTS else 0,
        bytes_deleted=1800 * MIB if job.kind is ActionKind.EXPIRE_SNAPSHOTS else 0,
    )
    return RunRecord(
        job_id=job.id,
        table=job.table,
        action=job.action,
        state=RunState.SUCCEEDED,
        started_at=start,
        finished_at=start + seconds * SECOND,
        before=_totals(files + 12, volume + 80 * MIB, 51),
        after=_totals(after + 12, int(volume * 0.94) + 80 * MIB, 94),
        effect=effect,
        proofs=(Proof(method="records", rows_before=2_400_000, rows_after=2_400_000),) if files else (),
        value_proof=VALUE_PROOF if files else None,
        commits=(4_011_245_118,) if files else (),
        expected=ExpectedEffect(files_removed=round((files - after) * 1.04), bytes_rewritten=int(volume * 1.02)),
        estimate=CostEstimate(
            get_requests=files * 2,
            put_requests=after,
            compute_seconds=seconds * 1.7,
            duration_seconds=seconds * 0.9,
            dollars=seconds * 0.000031,
        ),
        realised_seconds=seconds,
    )


def _totals(files: int, volume: int, score: int) -> Totals:
    return Totals(
        snapshot_id=4_011_245_118, data_files=files, delete_files=0, bytes=volume, records=2_400_000, snapshots=61,
        manifests=31, score=score,
    )  # fmt: skip


def write_sample_jobs(url: str) -> SampleJobs:
    stores = open_stores(url)
    try:
        return SampleJobWriter(stores).write()
    finally:
        stores.close()
