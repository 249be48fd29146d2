"""What must hold of the queue's tables whenever nobody is in the middle of a change."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Engine, Row, select

from icepack.store.schema import jobs, lanes


def assert_sound(engine: Engine) -> None:
    with engine.connect() as connection:
        lane_rows = {row.table_name: row for row in connection.execute(select(lanes))}
        job_rows = connection.execute(select(jobs).order_by(jobs.c.number)).all()
    of_table: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in job_rows:
        of_table[row.table_name].append(row)
    assert set(of_table) <= set(lane_rows)
    for name, lane in lane_rows.items():
        _assert_lane(lane, of_table[name])


def _assert_lane(lane: Row[Any], rows: list[Row[Any]]) -> None:
    running = [row for row in rows if row.state == "running"]
    assert len(running) <= 1, "two jobs of one table run"
    assert [row.number for row in running] == ([lane.job_number] if lane.job_number is not None else [])
    assert all((row.fence, row.worker) == (lane.fence, lane.owner) for row in running)
    assert (lane.owner is None) == (lane.fence is None) == (lane.expires_at is None)
    queued = [row for row in rows if row.state == "queued"]
    due = sorted((row.rank, row.number) for row in queued if row.waits_until is None)
    assert (lane.head_rank, lane.head_number) == (due[0] if due else (None, None)), "the head is not the next job"
    assert lane.wakes_at == min((row.waits_until for row in queued if row.waits_until is not None), default=None)
    assert len({row.digest for row in queued}) == len(queued), "equal jobs are queued"
