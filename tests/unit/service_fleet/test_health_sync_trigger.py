"""Health sync runs at its interval and soon after a job has ended, but not all the time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from icepack.domain.job import JobState
from icepack.domain.ports.table_cache import CacheState
from icepack.service.fleet.health_sync_trigger import HealthSyncTrigger

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class World:
    """A clock, a cache, ended jobs, and a health sync that takes a given time."""

    def __init__(self) -> None:
        self.now = NOON
        self.refreshed_at: datetime | None = None
        self.ended_at: list[datetime] = []
        self.refresh_duration = timedelta(seconds=1)
        self.refreshes = 0
        self.fails = False
        self.trigger = HealthSyncTrigger(self, self, self.state, interval=timedelta(minutes=5), clock=lambda: self.now)

    def run_once(self, *, full: bool = False, stop: Event | None = None) -> None:
        if self.fails:
            raise RuntimeError("no catalog")
        self.refreshes += 1
        self.now += self.refresh_duration
        self.refreshed_at = self.now

    def ended_counts(self, since: datetime) -> Mapping[JobState, int]:
        return {JobState.SUCCEEDED: sum(at >= since for at in self.ended_at)}

    def state(self) -> CacheState:
        return CacheState(generation=1, refreshed_at=self.refreshed_at)

    def after(self, seconds: float) -> int:
        self.now += timedelta(seconds=seconds)
        self.trigger.run_if_due(Event())
        return self.refreshes


@pytest.fixture
def world() -> World:
    found = World()
    assert found.after(0) == 1
    return found


def test_without_jobs_it_runs_at_its_interval(world: World) -> None:
    assert world.after(200) == 1
    assert world.after(100) == 2


def test_it_runs_soon_after_a_job_has_ended(world: World) -> None:
    world.now += timedelta(seconds=20)
    world.ended_at.append(world.now)
    assert world.after(1) == 2
    assert world.after(30) == 2


def test_it_runs_again_after_a_job_that_ended_during_a_refresh(world: World) -> None:
    world.ended_at.append(world.now - timedelta(milliseconds=500))
    assert world.after(20) == 2


def test_a_long_refresh_is_followed_by_a_long_pause(world: World) -> None:
    world.refresh_duration = timedelta(seconds=20)
    world.ended_at.append(world.now + timedelta(seconds=10))
    assert world.after(11) == 2
    world.ended_at.append(world.now)
    assert world.after(100) == 2
    assert world.after(101) == 3


def test_a_failed_refresh_is_due_again(world: World) -> None:
    world.fails = True
    with pytest.raises(RuntimeError):
        world.after(300)
    world.fails = False
    assert world.after(1) == 2
