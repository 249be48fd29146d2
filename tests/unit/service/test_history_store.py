"""The history store while the state database is unavailable."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from icepack.domain.actions import RewriteManifests
from icepack.domain.run import RunRecord, RunState
from icepack.service.runs.history_store import BufferedHistoryStore

from .fakes import TABLE, FlakyStore


def build_record() -> RunRecord:
    now = datetime.now(UTC)
    return RunRecord(
        job_id=uuid4(),
        table=TABLE,
        action=RewriteManifests(),
        state=RunState.SUCCEEDED,
        started_at=now,
        finished_at=now,
    )


def test_records_are_kept_while_the_database_is_unavailable(history: FlakyStore) -> None:
    buffered = BufferedHistoryStore(history)
    first, second = build_record(), build_record()
    history.unavailable = True
    buffered.save(first)
    history.unavailable = False
    assert buffered.runs() == []
    buffered.save(second)
    assert {kept.job_id for kept in buffered.runs()} == {first.job_id, second.job_id}


def test_unwritten_records_are_written_on_close(history: FlakyStore) -> None:
    buffered = BufferedHistoryStore(history)
    history.unavailable = True
    buffered.save(first := build_record())
    history.unavailable = False
    buffered.close()
    assert [kept.job_id for kept in history.runs(table=TABLE)] == [first.job_id]


def test_closing_without_a_database_does_not_fail(history: FlakyStore, caplog: pytest.LogCaptureFixture) -> None:
    buffered = BufferedHistoryStore(history)
    history.unavailable = True
    buffered.save(build_record())
    history.close = lambda: None
    buffered.close()
    assert "1 run records could not be saved" in caplog.text


def test_a_discarded_record_is_not_written(history: FlakyStore) -> None:
    buffered = BufferedHistoryStore(history)
    history.unavailable = True
    buffered.save(gone := build_record())
    buffered.discard(gone.job_id)
    history.unavailable = False
    buffered.flush()
    assert buffered.runs() == []
    assert buffered.past_runs(TABLE) == []
