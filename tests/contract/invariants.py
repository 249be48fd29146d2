"""Invariants of the queue's tables that hold whenever no transaction is open."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Engine, Row, select

from icepack.store.schema import jobs, table_slots


def assert_consistent(engine: Engine) -> None:
    with engine.connect() as connection:
        slots = {row.table_name: row for row in connection.execute(select(table_slots))}
        job_rows = connection.execute(select(jobs).order_by(jobs.c.number)).all()
    jobs_by_table: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in job_rows:
        jobs_by_table[row.table_name].append(row)
    assert set(jobs_by_table) <= set(slots)
    for name, slot in slots.items():
        _assert_slot(slot, jobs_by_table[name])


def _assert_slot(slot: Row[Any], rows: list[Row[Any]]) -> None:
    running = [row for row in rows if row.state == "running"]
    assert len(running) <= 1, "two jobs of one table are running"
    assert [row.number for row in running] == ([slot.job_number] if slot.job_number is not None else [])
    assert all((row.fence, row.worker) == (slot.fence, slot.owner) for row in running)
    assert (slot.owner is None) == (slot.fence is None) == (slot.expires_at is None)
    queued = [row for row in rows if row.state == "queued"]
    due = sorted((row.rank, row.number) for row in queued if row.waits_until is None)
    assert (slot.head_rank, slot.head_number) == (due[0] if due else (None, None)), (
        "the head of the slot is not the next job"
    )
    assert slot.wakes_at == min((row.waits_until for row in queued if row.waits_until is not None), default=None)
    assert len({row.digest for row in queued}) == len(queued), "equal jobs are queued"
