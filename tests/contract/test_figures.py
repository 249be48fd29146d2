"""The figures say what the store knows, each job once, whatever is read when and whatever is pruned."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event

from icepack.domain.actions import Compact, ExpireSnapshots
from icepack.domain.job import Claim, JobOutcome, JobState
from icepack.domain.observability.metric_definitions import Figures, Series
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.ports.access import WorkerCounts
from icepack.domain.ports.queue import KeepFor
from icepack.domain.run import RealisedEffect, RunState
from icepack.domain.serialization import to_json
from icepack.domain.status import SizeBucket
from icepack.domain.verification import NativeDisabled
from icepack.metrics import exposition
from icepack.store.admin.retention import SqlRetention
from icepack.store.history import SqlHistoryStore
from icepack.store.metrics import totals
from icepack.store.metrics.totals import SqlFigures
from icepack.store.queries.fleet import SqlBoard
from icepack.store.queue.workers import SqlAttendance
from icepack.store.verification import SqlVerificationStore

from .observed import cached
from .queueing import LEASE, Queue, StandingClock
from .records import NOON, ODD, ORDERS, VALUE_PROOF, run

MIB = 2**20
ESTIMATE = CostEstimate(get_requests=1000, put_requests=1000, compute_seconds=40.0, dollars=0.5)
EFFECT = RealisedEffect(
    files_rewritten=12,
    files_added=2,
    bytes_rewritten=600 * MIB,
    bytes_added=400 * MIB,
    added_sizes=(
        SizeBucket(below_bytes=128 * MIB, count=1, bytes=100 * MIB),
        SizeBucket(below_bytes=512 * MIB, count=1, bytes=300 * MIB),
    ),
)


@pytest.fixture
def figures(engine: Engine) -> SqlFigures:
    return SqlFigures(engine, CostModel(), StandingClock(engine))


def _end(queue: Queue, claim: Claim, state: JobState = JobState.SUCCEEDED, **facts: Any) -> None:
    ran = RunState.SUCCEEDED if state is JobState.SUCCEEDED else RunState.FAILED
    record = run(claim.table, job_id=claim.job_id, action=claim.job.action, state=ran, **facts)
    queue.jobs.finish(claim, JobOutcome(state=state, details=to_json(record)))


def _value(found: Figures, name: str, *labels: str) -> float:
    return found.get(Series(name, labels), 0.0)


def test_an_empty_store_has_figures(figures: SqlFigures) -> None:
    body = exposition(figures)[0].decode()
    assert 'compaction_jobs_total{status="success"} 0' in body
    assert 'compaction_duration_seconds_bucket{le="+Inf"} 0' in body
    assert "icepack_queue_age_seconds 0" in body
    assert "last_compaction_timestamp " not in _samples(body)
    assert "icepack_cache_age_seconds " not in _samples(body)


def _samples(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("#"))


def test_a_compaction_is_counted_with_all_that_it_did(queue: Queue, figures: SqlFigures) -> None:
    queue.submit()
    queue.wait(7)
    claim = queue.claim()
    queue.wait(90)
    _end(queue, claim, effect=EFFECT, estimate=ESTIMATE, realised_seconds=10.0)
    found = figures.read()
    assert _value(found, "compaction_jobs_total", "success") == 1
    assert _value(found, "icepack_jobs_total", "compact", "success") == 1
    assert _value(found, "files_compacted_total") == 12
    assert _value(found, "bytes_read_total") == 600 * MIB
    assert _value(found, "bytes_written_total") == 400 * MIB
    assert _value(found, "compression_ratio_sum") == 1.5
    assert _value(found, "compaction_duration_seconds_sum") == 90
    assert _value(found, "icepack_job_wait_seconds_sum") == 7
    assert _value(found, "last_compaction_timestamp") == queue.clock.read().timestamp()


def test_value_checks_are_counted_by_result(queue: Queue, figures: SqlFigures) -> None:
    proofs = [None, VALUE_PROOF, replace(VALUE_PROOF, mismatch=None, failures=())]
    for proof in proofs:
        queue.submit()
        _end(queue, queue.claim(), value_proof=proof)
    found = figures.read()
    assert _value(found, "icepack_value_checks_total", "equal") == 8
    assert _value(found, "icepack_value_checks_total", "different") == 1
    assert _value(found, "icepack_native_failures_total") == 1


def test_tables_with_the_native_rewrite_off_are_counted(engine: Engine, figures: SqlFigures) -> None:
    store = SqlVerificationStore(engine)
    for table in (ORDERS, ODD):
        store.disable_native(NativeDisabled(table=table, table_uuid="", disabled_at=NOON, reason=""))
    assert _value(figures.read(), "icepack_native_disabled_tables") == 2
    store.enable_native(ODD)
    assert _value(figures.read(), "icepack_native_disabled_tables") == 1


def test_estimates_stand_beside_what_they_came_to(queue: Queue, figures: SqlFigures) -> None:
    queue.submit()
    _end(queue, queue.claim(), estimate=ESTIMATE, realised_seconds=10.0)
    queue.submit()
    _end(queue, queue.claim(), realised_seconds=1000.0)
    found, model = figures.read(), CostModel()
    startup = model.startup_seconds * model.parallelism
    per_second = model.memory_gb * model.compute_dollars_per_gb_second
    assert _value(found, "icepack_compute_estimated_seconds_total") == pytest.approx(40 + startup)
    assert _value(found, "icepack_compute_realised_seconds_total") == pytest.approx(10 * model.parallelism)
    assert _value(found, "icepack_cost_estimated_dollars_total") == pytest.approx(0.5 + startup * per_second)
    realised = 0.0004 + 0.005 + 10 * model.parallelism * per_second
    assert _value(found, "icepack_cost_realised_dollars_total") == pytest.approx(realised)


def test_the_text_has_cumulative_buckets(queue: Queue, figures: SqlFigures) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(90)
    _end(queue, claim, effect=EFFECT)
    body = exposition(figures)[0].decode()
    for line in (
        'compaction_duration_seconds_bucket{le="60"} 0',
        'compaction_duration_seconds_bucket{le="300"} 1',
        'compaction_duration_seconds_bucket{le="+Inf"} 1',
        f'file_size_distribution_bucket{{le="{64 * MIB}"}} 0',
        f'file_size_distribution_bucket{{le="{128 * MIB}"}} 1',
        f'file_size_distribution_bucket{{le="{512 * MIB}"}} 2',
        f"file_size_distribution_sum {400 * MIB}",
        "file_size_distribution_count 2",
        'compression_ratio_bucket{le="1.25"} 0',
        'compression_ratio_bucket{le="1.5"} 1',
    ):
        assert f"{line}\n" in body


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("RowsChanged", "rows_changed"),
        ("CommitConflict", "conflict"),
        ("Refused", "refused"),
        ("ValueError", "other"),
        ("", "other"),
    ],
)
def test_a_failure_has_its_reason(queue: Queue, figures: SqlFigures, error: str, reason: str) -> None:
    queue.submit()
    _end(queue, queue.claim(), JobState.FAILED, error=error)
    found = figures.read()
    assert _value(found, "icepack_job_failures_total", reason) == 1
    assert _value(found, "compaction_jobs_total", "failed") == 1
    assert Series("last_compaction_timestamp") not in found


def test_a_job_whose_workers_died_failed_for_that(queue: Queue, figures: SqlFigures) -> None:
    queue.submit(max_attempts=1)
    queue.claim()
    queue.wait(LEASE.total_seconds() + 1)
    assert _value(figures.read(), "icepack_workers_lost") == 1
    queue.jobs.reap()
    found = figures.read()
    assert _value(found, "icepack_job_failures_total", "worker_lost") == 1
    assert _value(found, "icepack_workers_lost") == 0


def test_other_actions_are_no_compactions(queue: Queue, figures: SqlFigures) -> None:
    queue.submit(action=ExpireSnapshots())
    queue.submit(action=ExpireSnapshots(), table="lake.sales.others")
    assert _value(figures.read(), "icepack_queue_depth", "expire_snapshots", "due") == 2
    _end(queue, queue.claim(), effect=EFFECT)
    found = figures.read()
    assert _value(found, "icepack_jobs_total", "expire_snapshots", "success") == 1
    assert _value(found, "compaction_jobs_total", "success") == 0
    assert _value(found, "files_compacted_total") == 0
    assert _value(found, "pending_compactions") == 0


def test_a_cancelled_job_is_counted_and_a_collapsed_one_is_not(queue: Queue, figures: SqlFigures) -> None:
    running = queue.submit()
    claim = queue.claim()
    queue.submit()
    queue.jobs.hand_back(claim)
    queue.jobs.cancel(running.id)
    found = figures.read()
    assert _value(found, "compaction_jobs_total", "cancelled") == 1
    assert _value(found, "compaction_duration_seconds_count") == 0


def test_the_queue_is_told_by_action_and_time(queue: Queue, figures: SqlFigures) -> None:
    now = queue.clock.read()
    queue.submit("lake.a.due")
    queue.submit("lake.a.later", not_before=now + timedelta(hours=1))
    queue.wait(30)
    found = figures.read()
    assert _value(found, "icepack_queue_depth", "compact", "due") == 1
    assert _value(found, "icepack_queue_depth", "compact", "waiting") == 1
    assert _value(found, "pending_compactions") == 2
    assert _value(found, "icepack_queue_age_seconds") == 30


def test_a_job_that_had_to_wait_ages_from_when_its_time_came(queue: Queue, figures: SqlFigures) -> None:
    queue.submit("lake.a.later", not_before=queue.clock.read() + timedelta(hours=1))
    queue.wait(3600 + 5)
    assert _value(figures.read(), "icepack_queue_age_seconds") == 5
    assert _value(figures.read(), "icepack_queue_depth", "compact", "due") == 1


def test_workers_and_locks_are_told_apart(queue: Queue, figures: SqlFigures) -> None:
    queue.submit("lake.a.one")
    queue.submit("lake.a.two")
    queue.claim("w1")
    queue.claim("w2")
    queue.locks.acquire(ORDERS, "cli", LEASE)
    found = figures.read()
    assert _value(found, "icepack_workers") == 2
    assert _value(found, "active_compactions") == 2
    assert _value(found, "icepack_jobs_running", "compact") == 2
    assert _value(found, "icepack_locks", "job") == 2
    assert _value(found, "icepack_locks", "command") == 1
    assert _value(found, "icepack_lock_waits") == 0


def test_a_job_behind_a_lock_is_a_wait(queue: Queue, figures: SqlFigures) -> None:
    queue.locks.acquire(ORDERS, "cli", timedelta(hours=1))
    queue.wait(10)
    queue.submit(ORDERS)
    queue.wait(20)
    found = figures.read()
    assert _value(found, "icepack_lock_waits") == 1
    assert _value(found, "icepack_lock_wait_seconds") == 20


def test_the_cache_has_an_age_and_says_when_it_fails(queue: Queue, figures: SqlFigures) -> None:
    generation = queue.cache.begin("sync", LEASE)
    queue.cache.write(generation, [cached(ORDERS)])
    queue.cache.swap(generation)
    queue.wait(45)
    assert _value(figures.read(), "icepack_cache_age_seconds") == 45
    assert _value(figures.read(), "icepack_cache_refresh_failing") == 0
    queue.cache.give_up(queue.cache.begin("sync", LEASE), "no catalog")
    building = queue.cache.begin("sync", LEASE)
    assert _value(figures.read(), "icepack_cache_refresh_failing") == 1
    queue.cache.swap(building)
    assert _value(figures.read(), "icepack_cache_refresh_failing") == 0


def test_counters_do_not_fall_when_jobs_are_pruned(queue: Queue, engine: Engine, figures: SqlFigures) -> None:
    for _ in range(3):
        queue.submit()
        _end(queue, queue.claim(), effect=EFFECT)
    queue.wait(timedelta(days=40).total_seconds())
    pruned = SqlRetention(engine, StandingClock(engine), batch_rows=2).prune(KeepFor())
    assert pruned.jobs == 3
    assert _value(figures.read(), "compaction_jobs_total", "success") == 3
    assert _value(figures.read(), "files_compacted_total") == 36


def test_a_backlog_is_counted_over_several_readings(
    queue: Queue, figures: SqlFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "BATCH_JOBS", 2)
    monkeypatch.setattr(totals, "MOST_BATCHES", 2)
    for _ in range(9):
        queue.submit()
        _end(queue, queue.claim())
    told = [_value(figures.read(), "compaction_jobs_total", "success") for _ in range(4)]
    assert told == [4, 8, 9, 9]


def test_many_readers_count_each_job_once(queue: Queue, figures: SqlFigures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "BATCH_JOBS", 3)
    for _ in range(20):
        queue.submit()
        _end(queue, queue.claim(), effect=EFFECT)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: figures.read(), range(12)))
    found = figures.read()
    assert _value(found, "compaction_jobs_total", "success") == 20
    assert _value(found, "files_compacted_total") == 240


def test_a_reading_that_fails_half_way_counts_nothing(
    queue: Queue, figures: SqlFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit()
    _end(queue, queue.claim())
    genuine = totals._add

    def fail(*given: Any) -> None:
        genuine(*given)
        raise RuntimeError("power cut")

    monkeypatch.setattr(totals, "_add", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        figures.read()
    monkeypatch.undo()
    assert _value(figures.read(), "compaction_jobs_total", "success") == 1


def test_a_reading_in_quiet_times_writes_nothing(queue: Queue, engine: Engine, figures: SqlFigures) -> None:
    queue.submit()
    figures.read()
    statements: list[str] = []

    def note(*told: Any) -> None:
        statements.append(told[2])

    event.listen(engine, "before_cursor_execute", note)
    figures.read()
    event.remove(engine, "before_cursor_execute", note)
    assert statements
    assert [text for text in statements if not text.lstrip().startswith("SELECT") and text != "BEGIN"] == []


def test_a_record_of_an_older_icepack_counts(queue: Queue, figures: SqlFigures) -> None:
    queue.submit(action=Compact(rewrite_all=True))
    claim = queue.claim()
    record = to_json(run(claim.table, job_id=claim.job_id, effect=replace(EFFECT, added_sizes=())))
    del record["effect"]["added_sizes"], record["error"]
    queue.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED, details=record))
    assert _value(figures.read(), "files_compacted_total") == 12


def test_a_run_by_hand_is_counted_once_and_has_waited_for_nothing(
    engine: Engine, queue: Queue, figures: SqlFigures
) -> None:
    history = SqlHistoryStore(engine)
    by_hand = run(effect=EFFECT, estimate=ESTIMATE, realised_seconds=10.0)
    history.save(replace(by_hand, state=RunState.RUNNING, finished_at=None))
    assert _value(figures.read(), "compaction_jobs_total", "success") == 0
    history.save(by_hand)
    history.save(run(state=RunState.REFUSED, error="Refused"))
    queue.submit()
    claim = queue.claim()
    history.save(run(claim.table, job_id=claim.job_id))
    _end(queue, claim)
    figures.read()
    history.save(by_hand)
    found = figures.read()
    assert _value(found, "compaction_jobs_total", "success") == 2
    assert _value(found, "icepack_job_failures_total", "refused") == 1
    assert _value(found, "files_compacted_total") == EFFECT.files_rewritten
    assert _value(found, "icepack_job_wait_seconds_count") == 1


def test_workers_that_wait_are_counted_while_they_are_heard_of(queue: Queue, figures: SqlFigures) -> None:
    attendance = SqlAttendance(queue.engine, queue.clock)
    board = SqlBoard(queue.engine, queue.clock)
    for name in ("w1", "w2", "w3"):
        attendance.attend(name, timedelta(seconds=15))
    queue.submit()
    claimed = queue.jobs.claim("w1", LEASE)
    assert claimed is not None
    assert _value(figures.read(), "icepack_workers_idle") == 2
    assert board.workers() == WorkerCounts(busy=1, idle=2)
    attendance.leave("w2")
    assert _value(figures.read(), "icepack_workers_idle") == 1
    queue.wait(20)
    attendance.attend("w4", timedelta(seconds=15))
    assert _value(figures.read(), "icepack_workers_idle") == 1
    assert board.workers() == WorkerCounts(busy=1, idle=1)
