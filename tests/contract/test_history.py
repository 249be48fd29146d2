"""The contract of a history store."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, select, text

from icepack.domain.actions import Action, ActionKind, Compact, ExpireSnapshots
from icepack.domain.ports.history import RetentionPeriods
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.store import history as history_module
from icepack.store.admin import interrupted_runs
from icepack.store.admin.retention import SqlRetention
from icepack.store.backend import open_engine, select_history_store
from icepack.store.history import SqlHistoryStore
from icepack.store.jobs import SqlJobStore
from icepack.store.locks import SqlTableLocks
from icepack.store.schema import runs

from .queue_harness import DONE, LEASE, request
from .sample_runs import ACTIONS, LARGEST_SNAPSHOT_ID, NOON, ODD, ORDERS, full_run, run, totals

RETURNS = TableId("lake", ("sales",), "returns")


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)
def test_every_field_of_every_action_comes_back(history: SqlHistoryStore, action: Action) -> None:
    record = full_run(action)
    history.save(record)
    assert history.runs() == [record]
    assert type(history.runs()[0].action) is type(action)


def test_the_examples_cover_every_kind_and_every_field() -> None:
    assert {action.kind for action in ACTIONS} == set(ActionKind)
    plain, full = run(), full_run(ACTIONS[1])
    always = {"state", "started_at", "finished_at", "version"}
    assert {field.name for field in fields(RunRecord) if getattr(plain, field.name) == getattr(full, field.name)} == (
        always
    )


def test_saved_runs_are_there_after_reopening(database_url: str) -> None:
    record = full_run(ACTIONS[0])
    first = select_history_store(database_url)
    first.save(record)
    first.close()
    second = select_history_store(database_url)
    assert second.runs(table=ODD) == [record]
    second.close()


def test_saving_again_replaces_the_run(history: SqlHistoryStore) -> None:
    running = run(state=RunState.RUNNING, finished_at=None)
    history.save(running)
    done = replace(running, state=RunState.SUCCEEDED, finished_at=NOON, attempts=2, after=totals(9), message="ok")
    history.save(done)
    assert history.runs() == [done]
    assert [past.snapshot_id_after for past in history.past_runs(ORDERS)] == [9]


def test_a_message_that_text_columns_reject_is_kept(history: SqlHistoryStore) -> None:
    record = run(message="nul \0, half a pair \udc80", details={"path": "\0"})
    history.save(record)
    assert history.runs() == [record]


def test_runs_come_newest_first_and_at_most_as_many_as_asked(history: SqlHistoryStore) -> None:
    records = [run(minutes=minutes) for minutes in (3, 1, 5, 2, 4)]
    for record in records:
        history.save(record)
    newest_first = sorted(records, key=lambda record: record.started_at, reverse=True)
    assert history.runs() == newest_first
    assert history.runs(limit=2) == newest_first[:2]


def test_runs_that_started_at_the_same_time_have_a_stable_order(history: SqlHistoryStore) -> None:
    ids = [UUID(int=number << 96) for number in (2, 0xF, 1, 0xA)]
    for job_id in ids:
        history.save(run(job_id=job_id))
    assert [record.job_id for record in history.runs()] == sorted(ids, reverse=True)


def test_order_is_by_instant_not_by_wall_clock(history: SqlHistoryStore) -> None:
    tokyo = timezone(timedelta(hours=9))
    earlier = run(started_at=datetime(2026, 11, 15, 20, 0, tzinfo=tokyo))
    later = run(started_at=datetime(2026, 11, 15, 12, 0, tzinfo=UTC))
    for record in (later, earlier):
        history.save(record)
    assert history.runs() == [later, earlier]


def test_runs_are_filtered_by_table_kind_and_state(history: SqlHistoryStore) -> None:
    compacted = run(minutes=1)
    failed = run(minutes=2, state=RunState.FAILED)
    expired = run(minutes=3, action=ExpireSnapshots())
    elsewhere = run(RETURNS, minutes=4)
    for record in (compacted, failed, expired, elsewhere):
        history.save(record)
    assert history.runs(table=ORDERS) == [expired, failed, compacted]
    assert history.runs(kind=ActionKind.COMPACT) == [elsewhere, failed, compacted]
    assert history.runs(state=RunState.FAILED) == [failed]
    assert history.runs(table=ORDERS, kind=ActionKind.COMPACT, state=RunState.SUCCEEDED) == [compacted]
    assert history.runs(table=RETURNS, kind=ActionKind.EXPIRE_SNAPSHOTS) == []


def test_similar_table_names_are_not_confused(history: SqlHistoryStore) -> None:
    dotted = TableId("lake", ("a", "b"), "t")
    quoted = TableId("lake", ("a.b",), "t")
    records = {table: run(table) for table in (dotted, quoted, ODD)}
    for record in records.values():
        history.save(record)
    assert {table: history.runs(table=table) for table in records} == {
        table: [record] for table, record in records.items()
    }


def test_past_runs_are_the_newest_success_of_each_kind(history: SqlHistoryStore) -> None:
    history.save(run(minutes=1, after=totals(1)))
    history.save(run(minutes=2, after=totals(LARGEST_SNAPSHOT_ID)))
    history.save(run(minutes=9, state=RunState.FAILED))
    history.save(run(minutes=9, state=RunState.RUNNING, finished_at=None))
    history.save(run(minutes=9, state=RunState.CANCELLED))
    history.save(run(minutes=9, state=RunState.REFUSED))
    history.save(run(minutes=5, action=ExpireSnapshots()))
    history.save(run(RETURNS, minutes=8))
    newest, older = history.past_runs(ORDERS)
    assert (newest.kind, newest.snapshot_id_after) == (ActionKind.EXPIRE_SNAPSHOTS, None)
    assert (older.kind, older.snapshot_id_after) == (ActionKind.COMPACT, LARGEST_SNAPSHOT_ID)
    assert older.finished_at == NOON + timedelta(minutes=3)
    assert older.finished_at.tzinfo is UTC


def test_past_runs_record_whether_anything_changed(history: SqlHistoryStore) -> None:
    history.save(full_run(Compact()))
    history.save(run(ODD, action=ExpireSnapshots()))
    changed = {past.kind: past.changed_nothing for past in history.past_runs(ODD)}
    assert changed == {ActionKind.COMPACT: False, ActionKind.EXPIRE_SNAPSHOTS: True}


def test_a_table_without_history_has_no_past_runs(history: SqlHistoryStore) -> None:
    assert history.past_runs(ORDERS) == []
    assert history.runs() == []


def test_past_runs_use_only_the_index(database_url: str) -> None:
    select_history_store(database_url).close()
    engine = open_engine(database_url)
    statement = history_module._select_last_successes(ORDERS).compile(engine, compile_kwargs={"literal_binds": True})
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET enable_seqscan = off"))
        plan = [str(row[-1]) for row in connection.execute(text(f"{explain} {statement}"))]
    engine.dispose()
    assert sum("ix_runs_last_of_kind" in line for line in plan) == len(ActionKind)
    assert not any("Sort" in line or "TEMP B-TREE" in line or "Seq Scan" in line for line in plan)


def test_a_time_without_zone_is_refused(history: SqlHistoryStore) -> None:
    with pytest.raises(Exception, match="has no time zone"):
        history.save(run(started_at=datetime(2026, 11, 15)))


def test_the_columns_match_the_record(database_url: str) -> None:
    store = select_history_store(database_url)
    record = full_run(Compact())
    store.save(record)
    store.close()
    engine = open_engine(database_url)
    with engine.connect() as connection:
        row = connection.execute(select(runs)).one()
    engine.dispose()
    assert row.job_id == record.job_id
    assert (row.catalog, row.table_name) == ("läke", str(ODD))
    assert (row.started_at, row.finished_at) == (record.started_at, record.finished_at)
    assert (row.attempts, row.message) == (3, record.message)


def _running(table: TableId = ORDERS, **fields: Any) -> RunRecord:
    return run(table, state=RunState.RUNNING, finished_at=None, **fields)


def test_a_run_whose_process_is_gone_is_marked_at_the_next_read(engine: Engine) -> None:
    history = SqlHistoryStore(engine)
    interrupted = _running()
    history.save(interrupted)
    (seen,) = history.runs()
    assert (seen.job_id, seen.state, seen.retryable) == (interrupted.job_id, RunState.FAILED, True)
    assert seen.message.startswith("Interrupted")
    assert seen.finished_at is not None
    assert history.runs(state=RunState.RUNNING) == []
    history.save(replace(interrupted, state=RunState.SUCCEEDED, finished_at=NOON))
    assert [found.state for found in history.runs()] == [RunState.SUCCEEDED], "the process was alive"


def test_a_run_that_holds_its_table_is_running(engine: Engine) -> None:
    history, locks = SqlHistoryStore(engine), SqlTableLocks(engine)
    lock = locks.acquire(ORDERS, "cli", LEASE)
    history.save(_running())
    assert [found.state for found in history.runs()] == [RunState.RUNNING]
    locks.renew(lock, timedelta(0))
    assert [found.state for found in history.runs()] == [RunState.FAILED]


def test_a_run_of_an_unfinished_job_is_running_even_without_its_worker(engine: Engine) -> None:
    history, store = SqlHistoryStore(engine), SqlJobStore(engine)
    store.submit(request(ORDERS))
    claim = store.claim("w", LEASE)
    assert claim is not None
    history.save(_running(job_id=claim.job_id))
    assert [found.state for found in history.runs()] == [RunState.RUNNING]
    store.hand_back(claim)
    assert [found.state for found in history.runs()] == [RunState.RUNNING]


def test_a_finished_job_has_a_grace_period_to_record_its_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    history, store = SqlHistoryStore(engine), SqlJobStore(engine)
    store.submit(request(ORDERS))
    claim = store.claim("w", LEASE)
    assert claim is not None
    history.save(_running(job_id=claim.job_id))
    store.finish(claim, DONE)
    assert [found.state for found in history.runs()] == [RunState.RUNNING]
    monkeypatch.setattr(interrupted_runs, "GRACE_PERIOD", timedelta(seconds=-1))
    assert [found.state for found in history.runs()] == [RunState.FAILED]


def test_pruning_marks_interrupted_runs_too(engine: Engine) -> None:
    SqlHistoryStore(engine).save(_running(minutes=10**6))
    SqlRetention(engine).prune(RetentionPeriods(runs=None))
    with engine.connect() as connection:
        assert connection.scalars(select(runs.c.state)).all() == ["failed"]
