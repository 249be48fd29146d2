"""A right that is renewed: lost by the database's word, or by our own clock when nobody answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from icepack.domain.ports.queue import LockLost, TableLock
from icepack.errors import Cancelled, EnvironmentFault
from icepack.service.worker.heartbeat import Heartbeat, elapsed_seconds

from .parts import TABLE, soon

LEASE = timedelta(seconds=30)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def away() -> bool:
    raise EnvironmentFault("The state database is away.")


def lost() -> bool:
    moment = datetime.now(UTC)
    facts = {"owner": "me", "token": 1, "purpose": "", "taken_at": moment, "expires_at": moment, "expired": True}
    raise LockLost(TableLock(table=TABLE, **facts))


def heartbeat(renew: Callable[[], bool], clock: Clock) -> Heartbeat:
    return Heartbeat(renew, LEASE, threading.Event(), since=clock.now, clock=clock)


def test_no_answer_is_no_loss_while_the_lease_lasts() -> None:
    clock = Clock()
    heart = heartbeat(away, clock)
    clock.now += 29.9
    heart.confirm()
    assert not heart.cancel.is_set()


def test_after_a_whole_lease_without_an_answer_it_is_taken_for_lost() -> None:
    clock = Clock()
    heart = heartbeat(away, clock)
    clock.now += 30
    with pytest.raises(Cancelled, match="lease ended"):
        heart.confirm()
    assert heart.cancel.is_set()
    assert heart.expired
    assert heart.lost is None


def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    """The database may have renewed at any moment between question and answer; the earliest is sure."""
    clock = Clock()

    def slowly() -> bool:
        clock.now += 20
        return False

    heart = heartbeat(slowly, clock)
    heart.confirm()
    heart._renew = away
    clock.now += 9.9
    heart.confirm()
    clock.now += 0.2
    with pytest.raises(Cancelled):
        heart.confirm()


def test_the_databases_word_is_final() -> None:
    heart = heartbeat(lost, Clock())
    with pytest.raises(Cancelled, match="no longer holds"):
        heart.confirm()
    assert heart.cancel.is_set()
    assert heart.lost is not None


def test_a_process_that_was_frozen_past_its_lease_notices_by_itself() -> None:
    clock = Clock()
    with heartbeat(away, clock) as heart:
        clock.now += 3600
        soon(heart.cancel.is_set)
    assert heart.expired


def test_it_renews_in_the_background_and_stops_with_the_work() -> None:
    beats: list[float] = []

    def renew() -> bool:
        beats.append(elapsed_seconds())
        return False

    with Heartbeat(renew, LEASE, threading.Event(), since=elapsed_seconds()) as heart:
        soon(lambda: len(beats) >= 5)
        assert not heart.cancel.is_set()
    done = len(beats)
    assert not heart.cancel.wait(0.3)
    assert len(beats) == done


def test_however_long_the_lease_a_wish_to_cancel_is_heard_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert Heartbeat(away, timedelta(hours=1), threading.Event(), since=0.0)._interval <= 3.0


def test_errors_nobody_thought_of_count_as_no_answer() -> None:
    def explode() -> bool:
        raise ZeroDivisionError

    with Heartbeat(explode, timedelta(seconds=0.3), threading.Event(), since=elapsed_seconds()) as heart:
        assert heart.cancel.wait(2)
    assert heart.expired
