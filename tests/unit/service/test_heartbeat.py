"""A claim or lock is lost if the database says so, or by our own clock if the database does not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from icepack.domain.ports.locks import LockLost, TableLock
from icepack.errors import Cancelled, EnvironmentFault
from icepack.service.worker.heartbeat import Heartbeat, elapsed_seconds

from .fakes import TABLE, wait_until

LEASE = timedelta(seconds=30)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fail_to_renew() -> bool:
    raise EnvironmentFault("The state database is unavailable.")


def lost() -> bool:
    moment = datetime.now(UTC)
    facts = {"owner": "me", "token": 1, "purpose": "", "taken_at": moment, "expires_at": moment, "expired": True}
    raise LockLost(TableLock(table=TABLE, **facts))


def heartbeat(renew: Callable[[], bool], clock: Clock) -> Heartbeat:
    return Heartbeat(renew, LEASE, threading.Event(), since=clock.now, clock=clock)


def test_a_failed_renewal_is_no_loss_while_the_lease_lasts() -> None:
    clock = Clock()
    heart = heartbeat(fail_to_renew, clock)
    clock.now += 29.9
    heart.confirm()
    assert not heart.cancel.is_set()


def test_after_a_whole_lease_without_a_renewal_the_run_is_cancelled() -> None:
    clock = Clock()
    heart = heartbeat(fail_to_renew, clock)
    clock.now += 30
    with pytest.raises(Cancelled, match="lease expired"):
        heart.confirm()
    assert heart.cancel.is_set()
    assert heart.expired
    assert heart.lost is None


def test_the_lease_runs_from_the_time_of_the_request() -> None:
    """The database may have renewed at any time between request and answer; only the earliest is certain."""
    clock = Clock()

    def slowly() -> bool:
        clock.now += 20
        return False

    heart = heartbeat(slowly, clock)
    heart.confirm()
    heart._renew = fail_to_renew
    clock.now += 9.9
    heart.confirm()
    clock.now += 0.2
    with pytest.raises(Cancelled):
        heart.confirm()


def test_a_loss_that_the_database_reports_is_final() -> None:
    heart = heartbeat(lost, Clock())
    with pytest.raises(Cancelled, match="no longer holds"):
        heart.confirm()
    assert heart.cancel.is_set()
    assert heart.lost is not None


def test_a_process_that_was_frozen_past_its_lease_notices_by_itself() -> None:
    clock = Clock()
    with heartbeat(fail_to_renew, clock) as heart:
        clock.now += 3600
        wait_until(heart.cancel.is_set)
    assert heart.expired


def test_it_renews_in_the_background_and_stops_with_the_work() -> None:
    beats: list[float] = []

    def renew() -> bool:
        beats.append(elapsed_seconds())
        return False

    with Heartbeat(renew, LEASE, threading.Event(), since=elapsed_seconds()) as heart:
        wait_until(lambda: len(beats) >= 5)
        assert not heart.cancel.is_set()
    done = len(beats)
    assert not heart.cancel.wait(0.3)
    assert len(beats) == done


def test_a_request_to_cancel_arrives_within_seconds_however_long_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert Heartbeat(fail_to_renew, timedelta(hours=1), threading.Event(), since=0.0)._interval <= 3.0


def test_an_unexpected_error_counts_as_a_failed_renewal() -> None:
    def explode() -> bool:
        raise ZeroDivisionError

    with Heartbeat(explode, timedelta(seconds=0.3), threading.Event(), since=elapsed_seconds()) as heart:
        assert heart.cancel.wait(2)
    assert heart.expired
