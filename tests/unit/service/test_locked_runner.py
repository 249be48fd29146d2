"""Runs started by commands and workers share one lock per table."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from icepack.domain.actions import Compact, RemoveOrphanFiles
from icepack.domain.locations import TableLocations
from icepack.domain.observability.trace import Span
from icepack.domain.ports.engine import RunContext
from icepack.domain.run import RunRecord, RunState
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.retry import RetryPolicy
from icepack.service.runs.locked_runner import LockedRunner, build_cli_owner
from icepack.service.runs.request import RunDependencies, RunRequest
from icepack.tracing import Tracer

from .fakes import LEASE, OTHER, TABLE, TIMEOUT_SECONDS, FlakyStore, call_later, submit, wait_until
from .test_maintenance import FakeHistory, FakeTable


def runner(locks: FlakyStore, table: FakeTable, owner: str = "cli:here:1", lease: timedelta = LEASE) -> LockedRunner:
    tools = RunDependencies(
        inspector=table,  # type: ignore[arg-type]
        commit_reader=table,
        engine=table,
        history=FakeHistory(),  # type: ignore[arg-type]
        locations=TableLocations,
        retry=RetryPolicy(max_attempts=1),
    )
    held: Any = locks
    return LockedRunner(MaintenanceRunner(tools), lambda: held, owner=owner, lease=lease)


def run(locks: FlakyStore, table: FakeTable, action: Any = None, **facts: Any) -> RunRecord:
    request = RunRequest(table=TABLE, action=action or Compact(rewrite_all=True), **facts)
    return runner(locks, table).run(request)


def test_the_lock_is_held_while_it_runs_and_released_afterwards(locks: FlakyStore) -> None:
    seen: list[Any] = []
    record = run(locks, FakeTable(script=lambda _: seen.extend(locks.list_locks())))
    assert record.state is RunState.SUCCEEDED
    assert [(lock.table, lock.owner, lock.purpose) for lock in seen] == [(TABLE, "cli:here:1", "compact")]
    assert locks.list_locks() == []


def test_the_lock_is_renewed_while_the_run_lasts(locks: FlakyStore) -> None:
    def work_long(context: RunContext) -> None:
        (taken,) = locks.list_locks()
        wait_until(lambda: locks.list_locks()[0].expires_at > taken.expires_at)
        assert not context.cancel.is_set()

    assert run(locks, FakeTable(script=work_long)).state is RunState.SUCCEEDED


def test_a_run_on_a_table_that_a_worker_holds_is_refused(locks: FlakyStore, jobs: FlakyStore) -> None:
    submit(jobs)
    assert jobs.real.claim("host:7:abc", timedelta(minutes=1)) is not None
    table = FakeTable()
    record = run(locks, table)
    assert (record.state, table.contexts, record.retryable) == (RunState.REFUSED, [], False)
    assert "is locked by 'host:7:abc'" in record.message
    assert "icepack locks" in record.message


def test_no_worker_claims_a_job_of_a_table_that_a_command_holds(locks: FlakyStore, jobs: FlakyStore) -> None:
    submit(jobs)
    seen: list[Any] = []
    run(locks, FakeTable(script=lambda _: seen.append(jobs.real.claim("worker", LEASE))))
    assert seen == [None]
    assert jobs.real.claim("worker", LEASE) is not None


def test_other_tables_are_free(locks: FlakyStore, jobs: FlakyStore) -> None:
    submit(jobs, OTHER)
    assert jobs.real.claim("worker", LEASE) is not None
    assert run(locks, FakeTable()).state is RunState.SUCCEEDED


def test_a_broken_lock_cancels_the_run(locks: FlakyStore) -> None:
    def work(context: RunContext) -> None:
        call_later(0.05, lambda: locks.break_lock(TABLE, force=True))
        assert context.cancel.wait(TIMEOUT_SECONDS)
        context.check()

    everything = threading.Event()
    record = run(locks, FakeTable(script=work), cancel=everything)
    assert record.state is RunState.CANCELLED
    assert "no longer holds" in record.message
    assert not everything.is_set(), "the other tables of `maintain` go on"


def test_a_broken_lock_is_noticed_before_the_table_is_changed(locks: FlakyStore) -> None:
    def work(context: RunContext) -> None:
        locks.break_lock(TABLE, force=True)
        context.check()

    table = FakeTable(script=work)
    request = RunRequest(table=TABLE, action=Compact(rewrite_all=True))
    record = runner(locks, table).run(request)
    assert (record.state, table.commits) == (RunState.CANCELLED, [])
    assert "no longer holds" in record.message


def test_the_user_can_cancel_a_running_action(locks: FlakyStore) -> None:
    cancel = threading.Event()

    def work(context: RunContext) -> None:
        call_later(0.05, cancel.set)
        assert context.cancel.wait(TIMEOUT_SECONDS)
        context.check()

    assert run(locks, FakeTable(script=work), cancel=cancel).state is RunState.CANCELLED


def test_a_run_that_was_cancelled_before_does_not_start(locks: FlakyStore) -> None:
    cancel = threading.Event()
    cancel.set()
    assert run(locks, FakeTable(), cancel=cancel).state is RunState.CANCELLED
    assert locks.list_locks() == []


def test_without_a_database_nothing_is_touched(locks: FlakyStore) -> None:
    locks.unavailable = True
    table = FakeTable()
    record = run(locks, table)
    assert (record.state, record.retryable, table.contexts) == (RunState.FAILED, True, [])
    assert "unavailable" in record.message


def test_a_lock_that_cannot_be_released_does_not_fail_the_run(locks: FlakyStore) -> None:
    locks.fails_before["release"] = 1
    assert run(locks, FakeTable()).state is RunState.SUCCEEDED


def test_a_dry_run_needs_no_lock(locks: FlakyStore, jobs: FlakyStore) -> None:
    submit(jobs)
    jobs.real.claim("worker", LEASE)
    assert run(locks, FakeTable(), RemoveOrphanFiles(dry_run=True)).state is RunState.SUCCEEDED


def test_the_owner_contains_the_process_id() -> None:
    import os

    assert build_cli_owner().startswith("cli:")
    assert build_cli_owner().endswith(f":{os.getpid()}")


def test_each_phase_of_a_run_is_traced(locks: FlakyStore) -> None:
    spans: list[Span] = []
    by_hand = runner(locks, FakeTable())
    by_hand._tracer = Tracer(spans.append)
    record = by_hand.run(RunRequest(table=TABLE, action=Compact(rewrite_all=True)))
    *phases, whole = spans
    assert [span.name for span in phases] == ["planning", "execution", "commit"]
    assert {span.parent_id for span in phases} == {whole.context.span_id}
    assert whole.attributes["icepack.job_id"] == str(record.job_id)
    assert (whole.name, whole.attributes["icepack.state"], whole.failure) == ("run", "succeeded", "")
