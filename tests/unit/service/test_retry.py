"""Retries with backoff."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from icepack.errors import EnvironmentFault, UsageError
from icepack.service.retry import Backoff, DatabaseRetry, RetryPolicy


def test_delays_grow_up_to_the_maximum() -> None:
    backoff = Backoff(initial_seconds=1, max_seconds=8)
    for failures, longest in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (10_000, 8)):
        delays = [backoff.delay_seconds(failures) for _ in range(50)]
        assert longest / 2 <= min(delays) <= max(delays) <= longest
        assert len(set(delays)) > 1, "many workers must not retry at the same moment"


def test_delays_after_a_lost_commit_double_without_jitter() -> None:
    policy = RetryPolicy(base_delay=timedelta(milliseconds=200))
    assert [policy.delay_seconds(attempt) for attempt in (1, 2, 3, 4, 10)] == [0.2, 0.4, 0.8, 1.6, 0.2 * 512]


def test_a_call_is_repeated_until_it_succeeds() -> None:
    results = iter([EnvironmentFault("unavailable")] * 3 + ["here"])
    waited: list[float] = []

    def call() -> str:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    assert DatabaseRetry(wait=waited.append).run("asking", call) == "here"
    assert len(waited) == 3


def test_a_call_is_not_repeated_once_stop_is_set() -> None:
    stop = threading.Event()

    def call() -> None:
        stop.set()
        raise EnvironmentFault("unavailable")

    with pytest.raises(EnvironmentFault):
        DatabaseRetry().run("asking", call, stop=stop)


def test_other_errors_are_not_retried() -> None:
    def call() -> None:
        raise UsageError("nonsense")

    with pytest.raises(UsageError):
        DatabaseRetry().run("asking", call)
