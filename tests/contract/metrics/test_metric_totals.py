"""Metric values: each job is counted exactly once, independent of concurrent reads and of pruning."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event

from contract.queue_harness import LEASE, Queue, SettableClock
from contract.sample_runs import NOON, ODD, ORDERS, VALUE_PROOF, run
from contract.sample_tables import cached
from icepack.domain.actions import Compact, ExpireSnapshots
from icepack.domain.job import Claim, JobOutcome, JobState
from icepack.domain.observability.metric_definitions import MetricValues, Series
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.ports.history import RetentionPeriods
from icepack.domain.ports.queries import WorkerCounts
from icepack.domain.run import RealisedEffect, RunState
from icepack.domain.serialization import to_json
from icepack.domain.status import SizeBucket
from icepack.domain.verification import NativeDisabled
from icepack.metrics import render_exposition
from icepack.store.admin.retention import SqlRetention
from icepack.store.history import SqlHistoryStore
from icepack.store.metrics import totals
from icepack.store.metrics.totals import SqlMetricsSource
from icepack.store.queries.fleet import SqlFleetQueries
from icepack.store.queue.workers import SqlWorkerRegistry
from icepack.store.verification import SqlVerificationStore

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
def metrics(engine: Engine) -> SqlMetricsSource:
    return SqlMetricsSource(engine, CostModel(), SettableClock(engine))


def _end(queue: Queue, claim: Claim, state: JobState = JobState.SUCCEEDED, **facts: Any) -> None:
    ran = RunState.SUCCEEDED if state is JobState.SUCCEEDED else RunState.FAILED
    record = run(claim.table, job_id=claim.job_id, action=claim.job.action, state=ran, **facts)
    queue.jobs.finish(claim, JobOutcome(state=state, details=to_json(record)))


def _value(found: MetricValues, name: str, *labels: str) -> float:
    return found.get(Series(name, labels), 0.0)


def test_an_empty_store_has_metrics(metrics: SqlMetricsSource) -> None:
    body = render_exposition(metrics)[0].decode()
    assert 'compaction_jobs_total{status="success"} 0' in body
    assert 'compaction_duration_seconds_bucket{le="+Inf"} 0' in body
    assert "icepack_queue_age_seconds 0" in body
    assert "last_compaction_timestamp " not in _samples(body)
    assert "icepack_cache_age_seconds " not in _samples(body)


def _samples(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("#"))


def test_a_compaction_is_counted_with_its_effect(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit()
    queue.wait(7)
    claim = queue.claim()
    queue.wait(90)
    _end(queue, claim, effect=EFFECT, estimate=ESTIMATE, realised_seconds=10.0)
    found = metrics.read()
    assert _value(found, "compaction_jobs_total", "success") == 1
    assert _value(found, "icepack_jobs_total", "compact", "success") == 1
    assert _value(found, "files_compacted_total") == 12
    assert _value(found, "bytes_read_total") == 600 * MIB
    assert _value(found, "bytes_written_total") == 400 * MIB
    assert _value(found, "compression_ratio_sum") == 1.5
    assert _value(found, "compaction_duration_seconds_sum") == 90
    assert _value(found, "icepack_job_wait_seconds_sum") == 7
    assert _value(found, "last_compaction_timestamp") == queue.clock.read().timestamp()


def test_value_checks_are_counted_by_result(queue: Queue, metrics: SqlMetricsSource) -> None:
    proofs = [None, VALUE_PROOF, replace(VALUE_PROOF, mismatch=None, failures=())]
    for proof in proofs:
        queue.submit()
        _end(queue, queue.claim(), value_proof=proof)
    found = metrics.read()
    assert _value(found, "icepack_value_checks_total", "equal") == 8
    assert _value(found, "icepack_value_checks_total", "different") == 1
    assert _value(found, "icepack_native_failures_total") == 1


def test_tables_with_the_native_rewrite_off_are_counted(engine: Engine, metrics: SqlMetricsSource) -> None:
    store = SqlVerificationStore(engine)
    for table in (ORDERS, ODD):
        store.disable_native(NativeDisabled(table=table, table_uuid="", disabled_at=NOON, reason=""))
    assert _value(metrics.read(), "icepack_native_disabled_tables") == 2
    store.enable_native(ODD)
    assert _value(metrics.read(), "icepack_native_disabled_tables") == 1


def test_estimates_are_comparable_with_realised_costs(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit()
    _end(queue, queue.claim(), estimate=ESTIMATE, realised_seconds=10.0)
    queue.submit()
    _end(queue, queue.claim(), realised_seconds=1000.0)
    found, model = metrics.read(), CostModel()
    startup = model.startup_seconds * model.parallelism
    per_second = model.memory_gb * model.compute_dollars_per_gb_second
    assert _value(found, "icepack_compute_estimated_seconds_total") == pytest.approx(40 + startup)
    assert _value(found, "icepack_compute_realised_seconds_total") == pytest.approx(10 * model.parallelism)
    assert _value(found, "icepack_cost_estimated_dollars_total") == pytest.approx(0.5 + startup * per_second)
    realised = 0.0004 + 0.005 + 10 * model.parallelism * per_second
    assert _value(found, "icepack_cost_realised_dollars_total") == pytest.approx(realised)


def test_the_text_has_cumulative_buckets(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(90)
    _end(queue, claim, effect=EFFECT)
    body = render_exposition(metrics)[0].decode()
    samples = dict(line.rsplit(" ", 1) for line in _samples(body).splitlines())
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
        name, value = line.rsplit(" ", 1)
        assert float(samples[name]) == float(value), name


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
def test_a_failure_has_its_reason(queue: Queue, metrics: SqlMetricsSource, error: str, reason: str) -> None:
    queue.submit()
    _end(queue, queue.claim(), JobState.FAILED, error=error)
    found = metrics.read()
    assert _value(found, "icepack_job_failures_total", reason) == 1
    assert _value(found, "compaction_jobs_total", "failed") == 1
    assert Series("last_compaction_timestamp") not in found


def test_a_job_whose_workers_died_fails_with_worker_lost(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit(max_attempts=1)
    queue.claim()
    queue.wait(LEASE.total_seconds() + 1)
    assert _value(metrics.read(), "icepack_workers_lost") == 1
    queue.jobs.reap()
    found = metrics.read()
    assert _value(found, "icepack_job_failures_total", "worker_lost") == 1
    assert _value(found, "icepack_workers_lost") == 0


def test_other_actions_are_not_counted_as_compactions(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit(action=ExpireSnapshots())
    queue.submit(action=ExpireSnapshots(), table="lake.sales.others")
    assert _value(metrics.read(), "icepack_queue_depth", "expire_snapshots", "due") == 2
    _end(queue, queue.claim(), effect=EFFECT)
    found = metrics.read()
    assert _value(found, "icepack_jobs_total", "expire_snapshots", "success") == 1
    assert _value(found, "compaction_jobs_total", "success") == 0
    assert _value(found, "files_compacted_total") == 0
    assert _value(found, "pending_compactions") == 0


def test_a_cancelled_job_is_counted_and_a_collapsed_one_is_not(queue: Queue, metrics: SqlMetricsSource) -> None:
    running = queue.submit()
    claim = queue.claim()
    queue.submit()
    queue.jobs.hand_back(claim)
    queue.jobs.cancel(running.id)
    found = metrics.read()
    assert _value(found, "compaction_jobs_total", "cancelled") == 1
    assert _value(found, "compaction_duration_seconds_count") == 0


def test_the_queue_depth_is_split_by_action_and_due_time(queue: Queue, metrics: SqlMetricsSource) -> None:
    now = queue.clock.read()
    queue.submit("lake.a.due")
    queue.submit("lake.a.later", not_before=now + timedelta(hours=1))
    queue.wait(30)
    found = metrics.read()
    assert _value(found, "icepack_queue_depth", "compact", "due") == 1
    assert _value(found, "icepack_queue_depth", "compact", "waiting") == 1
    assert _value(found, "pending_compactions") == 2
    assert _value(found, "icepack_queue_age_seconds") == 30


def test_the_age_of_a_delayed_job_starts_when_it_becomes_due(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit("lake.a.later", not_before=queue.clock.read() + timedelta(hours=1))
    queue.wait(3600 + 5)
    assert _value(metrics.read(), "icepack_queue_age_seconds") == 5
    assert _value(metrics.read(), "icepack_queue_depth", "compact", "due") == 1


def test_locks_are_split_by_workers_and_commands(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit("lake.a.one")
    queue.submit("lake.a.two")
    queue.claim("w1")
    queue.claim("w2")
    queue.locks.acquire(ORDERS, "cli", LEASE)
    found = metrics.read()
    assert _value(found, "icepack_workers") == 2
    assert _value(found, "active_compactions") == 2
    assert _value(found, "icepack_jobs_running", "compact") == 2
    assert _value(found, "icepack_locks", "job") == 2
    assert _value(found, "icepack_locks", "command") == 1
    assert _value(found, "icepack_lock_waits") == 0


def test_a_job_behind_a_lock_counts_as_a_wait(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.locks.acquire(ORDERS, "cli", timedelta(hours=1))
    queue.wait(10)
    queue.submit(ORDERS)
    queue.wait(20)
    found = metrics.read()
    assert _value(found, "icepack_lock_waits") == 1
    assert _value(found, "icepack_lock_wait_seconds") == 20


def test_the_cache_has_an_age_and_a_failure_flag(queue: Queue, metrics: SqlMetricsSource) -> None:
    generation = queue.cache.begin("sync", LEASE)
    queue.cache.write(generation, [cached(ORDERS)])
    queue.cache.swap(generation)
    queue.wait(45)
    assert _value(metrics.read(), "icepack_cache_age_seconds") == 45
    assert _value(metrics.read(), "icepack_cache_refresh_failing") == 0
    queue.cache.abort(queue.cache.begin("sync", LEASE), "no catalog")
    building = queue.cache.begin("sync", LEASE)
    assert _value(metrics.read(), "icepack_cache_refresh_failing") == 1
    queue.cache.swap(building)
    assert _value(metrics.read(), "icepack_cache_refresh_failing") == 0


def test_counters_do_not_fall_when_jobs_are_pruned(queue: Queue, engine: Engine, metrics: SqlMetricsSource) -> None:
    for _ in range(3):
        queue.submit()
        _end(queue, queue.claim(), effect=EFFECT)
    queue.wait(timedelta(days=40).total_seconds())
    pruned = SqlRetention(engine, SettableClock(engine), batch_rows=2).prune(RetentionPeriods())
    assert pruned.jobs == 3
    assert _value(metrics.read(), "compaction_jobs_total", "success") == 3
    assert _value(metrics.read(), "files_compacted_total") == 36


def test_a_backlog_is_counted_over_several_reads(
    queue: Queue, metrics: SqlMetricsSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "BATCH_ROWS", 2)
    monkeypatch.setattr(totals, "MAX_BATCHES_PER_READ", 2)
    for _ in range(9):
        queue.submit()
        _end(queue, queue.claim())
    counts = [_value(metrics.read(), "compaction_jobs_total", "success") for _ in range(4)]
    assert counts == [4, 8, 9, 9]


def test_many_readers_count_each_job_once(
    queue: Queue, metrics: SqlMetricsSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "BATCH_ROWS", 3)
    for _ in range(20):
        queue.submit()
        _end(queue, queue.claim(), effect=EFFECT)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: metrics.read(), range(12)))
    found = metrics.read()
    assert _value(found, "compaction_jobs_total", "success") == 20
    assert _value(found, "files_compacted_total") == 240


def test_a_read_that_fails_half_way_counts_nothing(
    queue: Queue, metrics: SqlMetricsSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.submit()
    _end(queue, queue.claim())
    original = totals._add_to_totals

    def fail(*arguments: Any) -> None:
        original(*arguments)
        raise RuntimeError("power cut")

    monkeypatch.setattr(totals, "_add_to_totals", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        metrics.read()
    monkeypatch.undo()
    assert _value(metrics.read(), "compaction_jobs_total", "success") == 1


def test_a_read_without_ended_jobs_writes_nothing(queue: Queue, engine: Engine, metrics: SqlMetricsSource) -> None:
    queue.submit()
    metrics.read()
    statements: list[str] = []

    def record(*arguments: Any) -> None:
        statements.append(arguments[2])

    event.listen(engine, "before_cursor_execute", record)
    metrics.read()
    event.remove(engine, "before_cursor_execute", record)
    assert statements
    assert [text for text in statements if not text.lstrip().startswith("SELECT") and text != "BEGIN"] == []


def test_a_record_of_an_older_release_is_counted(queue: Queue, metrics: SqlMetricsSource) -> None:
    queue.submit(action=Compact(rewrite_all=True))
    claim = queue.claim()
    record = to_json(run(claim.table, job_id=claim.job_id, effect=replace(EFFECT, added_sizes=())))
    del record["effect"]["added_sizes"], record["error"]
    queue.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED, details=record))
    assert _value(metrics.read(), "files_compacted_total") == 12


def test_a_run_without_a_job_is_counted_once_and_without_a_wait(
    engine: Engine, queue: Queue, metrics: SqlMetricsSource
) -> None:
    history = SqlHistoryStore(engine)
    without_job = run(effect=EFFECT, estimate=ESTIMATE, realised_seconds=10.0)
    history.save(replace(without_job, state=RunState.RUNNING, finished_at=None))
    assert _value(metrics.read(), "compaction_jobs_total", "success") == 0
    history.save(without_job)
    history.save(run(state=RunState.REFUSED, error="Refused"))
    queue.submit()
    claim = queue.claim()
    history.save(run(claim.table, job_id=claim.job_id))
    _end(queue, claim)
    metrics.read()
    history.save(without_job)
    found = metrics.read()
    assert _value(found, "compaction_jobs_total", "success") == 2
    assert _value(found, "icepack_job_failures_total", "refused") == 1
    assert _value(found, "files_compacted_total") == EFFECT.files_rewritten
    assert _value(found, "icepack_job_wait_seconds_count") == 1


def test_idle_workers_are_counted_while_they_are_registered(queue: Queue, metrics: SqlMetricsSource) -> None:
    worker_registry = SqlWorkerRegistry(queue.engine, queue.clock)
    fleet_queries = SqlFleetQueries(queue.engine, queue.clock)
    for name in ("w1", "w2", "w3"):
        worker_registry.register(name, timedelta(seconds=15))
    queue.submit()
    claimed = queue.jobs.claim("w1", LEASE)
    assert claimed is not None
    assert _value(metrics.read(), "icepack_workers_idle") == 2
    assert fleet_queries.workers() == WorkerCounts(busy=1, idle=2)
    worker_registry.unregister("w2")
    assert _value(metrics.read(), "icepack_workers_idle") == 1
    queue.wait(20)
    worker_registry.register("w4", timedelta(seconds=15))
    assert _value(metrics.read(), "icepack_workers_idle") == 1
    assert fleet_queries.workers() == WorkerCounts(busy=1, idle=1)
