"""Waiting for the database."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from icepack.domain.actions import RewriteManifests
from icepack.domain.run import RunRecord, RunState
from icepack.errors import EnvironmentFault, UsageError
from icepack.service.retry import Backoff, Patience, PatientHistory

from .parts import TABLE, Flaky


def run() -> RunRecord:
    now = datetime.now(UTC)
    return RunRecord(
        job_id=uuid4(),
        table=TABLE,
        action=RewriteManifests(),
        state=RunState.SUCCEEDED,
        started_at=now,
        finished_at=now,
    )


def test_pauses_grow_up_to_the_longest() -> None:
    backoff = Backoff(first_seconds=1, longest_seconds=8)
    for failures, longest in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (10_000, 8)):
        pauses = [backoff.pause_seconds(failures) for _ in range(50)]
        assert longest / 2 <= min(pauses) <= max(pauses) <= longest
        assert len(set(pauses)) > 1, "many workers must not come back at the same moment"


def test_it_insists_until_it_gets_through() -> None:
    answers = iter([EnvironmentFault("away")] * 3 + ["here"])
    waited: list[float] = []

    def call() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert Patience(wait=waited.append).insist("Asking", call) == "here"
    assert len(waited) == 3


def test_it_gives_up_when_it_is_told_to() -> None:
    stop = threading.Event()

    def call() -> None:
        stop.set()
        raise EnvironmentFault("away")

    with pytest.raises(EnvironmentFault):
        Patience().insist("Asking", call, give_up=stop)


def test_it_has_no_patience_with_other_errors() -> None:
    def call() -> None:
        raise UsageError("nonsense")

    with pytest.raises(UsageError):
        Patience().insist("Asking", call)


def test_a_history_that_is_away_keeps_what_it_was_told(history: Flaky) -> None:
    patient = PatientHistory(history)
    first, second = run(), run()
    history.away = True
    patient.save(first)
    history.away = False
    assert patient.runs() == []
    patient.save(second)
    assert {kept.job_id for kept in patient.runs()} == {first.job_id, second.job_id}


def test_what_is_left_is_written_at_the_end(history: Flaky) -> None:
    patient = PatientHistory(history)
    history.away = True
    patient.save(first := run())
    history.away = False
    patient.close()
    assert [kept.job_id for kept in history.runs(table=TABLE)] == [first.job_id]


def test_an_end_without_a_database_is_an_end_all_the_same(history: Flaky, caplog: pytest.LogCaptureFixture) -> None:
    patient = PatientHistory(history)
    history.away = True
    patient.save(run())
    history.close = lambda: None
    patient.close()
    assert "the history lacks 1 runs" in caplog.text


def test_what_another_will_tell_is_forgotten(history: Flaky) -> None:
    patient = PatientHistory(history)
    history.away = True
    patient.save(gone := run())
    patient.forget(gone.job_id)
    history.away = False
    patient.catch_up()
    assert patient.runs() == []
    assert patient.past_runs(TABLE) == []
