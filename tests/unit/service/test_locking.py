"""Runs by hand and workers share one lock per table."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from icepack.domain.actions import Compact, RemoveOrphanFiles
from icepack.domain.locations import TableLocations
from icepack.domain.observability.trace import Span
from icepack.domain.ports.engine import RunContext
from icepack.domain.run import RunRecord, RunState
from icepack.service.maintenance import RetryPolicy, RunRequest, RunTools
from icepack.service.runs.locked_runner import LockingRunner, cli_owner
from icepack.tracing import Tracer

from .parts import LEASE, OTHER, PATIENCE_SECONDS, TABLE, Flaky, later, soon, submit
from .test_maintenance import Memory, Table


def runner(locks: Flaky, table: Table, owner: str = "cli:here:1", lease: timedelta = LEASE) -> LockingRunner:
    tools = RunTools(
        inspector=table,  # type: ignore[arg-type]
        ledger=table,
        engine=table,
        history=Memory(),  # type: ignore[arg-type]
        locations=TableLocations,
        retry=RetryPolicy(max_attempts=1),
    )
    return LockingRunner(tools, lambda: locks, owner=owner, lease=lease)  # type: ignore[arg-type, return-value]


def run(locks: Flaky, table: Table, action: Any = None, **facts: Any) -> RunRecord:
    request = RunRequest(table=TABLE, action=action or Compact(rewrite_all=True), **facts)
    return runner(locks, table).run(request)


def test_the_lock_is_held_while_it_runs_and_released_afterwards(locks: Flaky) -> None:
    seen: list[Any] = []
    record = run(locks, Table(deed=lambda _: seen.extend(locks.list_locks())))
    assert record.state is RunState.SUCCEEDED
    assert [(lock.table, lock.owner, lock.purpose) for lock in seen] == [(TABLE, "cli:here:1", "compact")]
    assert locks.list_locks() == []


def test_it_is_renewed_for_as_long_as_it_takes(locks: Flaky) -> None:
    def work_long(context: RunContext) -> None:
        (taken,) = locks.list_locks()
        soon(lambda: locks.list_locks()[0].expires_at > taken.expires_at)
        assert not context.cancel.is_set()

    assert run(locks, Table(deed=work_long)).state is RunState.SUCCEEDED


def test_a_table_that_a_worker_holds_is_refused_with_a_sentence(locks: Flaky, jobs: Flaky) -> None:
    submit(jobs)
    assert jobs.real.claim("host:7:abc", timedelta(minutes=1)) is not None
    table = Table()
    record = run(locks, table)
    assert (record.state, table.contexts, record.retryable) == (RunState.REFUSED, [], False)
    assert "is held by 'host:7:abc'" in record.message
    assert "icepack locks" in record.message


def test_no_worker_claims_a_job_of_a_table_that_a_command_holds(locks: Flaky, jobs: Flaky) -> None:
    submit(jobs)
    seen: list[Any] = []
    run(locks, Table(deed=lambda _: seen.append(jobs.real.claim("worker", LEASE))))
    assert seen == [None]
    assert jobs.real.claim("worker", LEASE) is not None


def test_other_tables_are_free(locks: Flaky, jobs: Flaky) -> None:
    submit(jobs, OTHER)
    assert jobs.real.claim("worker", LEASE) is not None
    assert run(locks, Table()).state is RunState.SUCCEEDED


def test_a_lock_that_is_broken_stops_the_work(locks: Flaky) -> None:
    def work(context: RunContext) -> None:
        later(0.05, lambda: locks.break_lock(TABLE, force=True))
        assert context.cancel.wait(PATIENCE_SECONDS)
        context.check()

    everything = threading.Event()
    record = run(locks, Table(deed=work), cancel=everything)
    assert record.state is RunState.CANCELLED
    assert "no longer holds" in record.message
    assert not everything.is_set(), "the other tables of `maintain` go on"


def test_a_lock_that_was_broken_unnoticed_is_noticed_before_the_table_is_touched(locks: Flaky) -> None:
    def work(context: RunContext) -> None:
        locks.break_lock(TABLE, force=True)
        context.check()

    table = Table(deed=work)
    request = RunRequest(table=TABLE, action=Compact(rewrite_all=True))
    record = runner(locks, table).run(request)
    assert (record.state, table.commits) == (RunState.CANCELLED, [])
    assert "no longer holds" in record.message


def test_what_the_user_stops_is_heard_while_it_runs(locks: Flaky) -> None:
    cancel = threading.Event()

    def work(context: RunContext) -> None:
        later(0.05, cancel.set)
        assert context.cancel.wait(PATIENCE_SECONDS)
        context.check()

    assert run(locks, Table(deed=work), cancel=cancel).state is RunState.CANCELLED


def test_what_the_user_stops_stays_stopped(locks: Flaky) -> None:
    cancel = threading.Event()
    cancel.set()
    assert run(locks, Table(), cancel=cancel).state is RunState.CANCELLED
    assert locks.list_locks() == []


def test_without_a_database_nothing_is_touched(locks: Flaky) -> None:
    locks.away = True
    table = Table()
    record = run(locks, table)
    assert (record.state, record.retryable, table.contexts) == (RunState.FAILED, True, [])
    assert "away" in record.message


def test_a_lock_that_cannot_be_released_spoils_no_run(locks: Flaky) -> None:
    locks.fails_before["release"] = 1
    assert run(locks, Table()).state is RunState.SUCCEEDED


def test_a_dry_run_needs_no_lock(locks: Flaky, jobs: Flaky) -> None:
    submit(jobs)
    jobs.real.claim("worker", LEASE)
    assert run(locks, Table(), RemoveOrphanFiles(dry_run=True)).state is RunState.SUCCEEDED


def test_owners_tell_which_process_it_is() -> None:
    import os

    assert cli_owner().startswith("cli:")
    assert cli_owner().endswith(f":{os.getpid()}")


def test_a_run_by_hand_is_traced_phase_by_phase(locks: Flaky) -> None:
    spans: list[Span] = []
    by_hand = runner(locks, Table())
    by_hand._tracer = Tracer(spans.append)
    record = by_hand.run(RunRequest(table=TABLE, action=Compact(rewrite_all=True)))
    *phases, whole = spans
    assert [span.name for span in phases] == ["planning", "execution", "commit"]
    assert {span.parent_id for span in phases} == {whole.context.span_id}
    assert whole.attributes["icepack.job_id"] == str(record.job_id)
    assert (whole.name, whole.attributes["icepack.state"], whole.failure) == ("run", "succeeded", "")
