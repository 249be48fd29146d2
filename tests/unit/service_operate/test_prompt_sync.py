"""Health sync comes at its interval, and soon after a job has ended; but it never only syncs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from icepack.domain.job import JobState
from icepack.domain.ports.queue import CacheState
from icepack.service.fleet.health_sync_trigger import PromptSync

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class World:
    """A clock, a cache, and jobs that end; a round takes as long as it is told to."""

    def __init__(self) -> None:
        self.now = NOON
        self.refreshed_at: datetime | None = None
        self.ended_at: list[datetime] = []
        self.round_takes = timedelta(seconds=1)
        self.rounds = 0
        self.fails = False
        self.sync = PromptSync(self, self, self.state, interval=timedelta(minutes=5), clock=lambda: self.now)

    def run_once(self, *, full: bool = False, stop: Event | None = None) -> None:
        if self.fails:
            raise RuntimeError("no catalog")
        self.rounds += 1
        self.now += self.round_takes
        self.refreshed_at = self.now

    def ended_counts(self, since: datetime) -> Mapping[JobState, int]:
        return {JobState.SUCCEEDED: sum(at >= since for at in self.ended_at)}

    def state(self) -> CacheState:
        return CacheState(generation=1, refreshed_at=self.refreshed_at)

    def after(self, seconds: float) -> int:
        self.now += timedelta(seconds=seconds)
        self.sync.look(Event())
        return self.rounds


@pytest.fixture
def world() -> World:
    found = World()
    assert found.after(0) == 1
    return found


def test_without_work_it_keeps_to_the_interval(world: World) -> None:
    assert world.after(200) == 1
    assert world.after(100) == 2


def test_a_job_that_ended_is_followed_soon(world: World) -> None:
    world.now += timedelta(seconds=20)
    world.ended_at.append(world.now)
    assert world.after(1) == 2
    assert world.after(30) == 2


def test_a_job_that_ended_during_a_round_is_followed_by_another(world: World) -> None:
    world.ended_at.append(world.now - timedelta(milliseconds=500))
    assert world.after(20) == 2


def test_a_long_round_is_followed_by_a_long_rest(world: World) -> None:
    world.round_takes = timedelta(seconds=20)
    world.ended_at.append(world.now + timedelta(seconds=10))
    assert world.after(11) == 2
    world.ended_at.append(world.now)
    assert world.after(100) == 2
    assert world.after(101) == 3


def test_a_failed_round_is_due_again(world: World) -> None:
    world.fails = True
    with pytest.raises(RuntimeError):
        world.after(300)
    world.fails = False
    assert world.after(1) == 2
