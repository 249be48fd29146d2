"""A step that repeats at an interval, and work in several threads."""

from __future__ import annotations

from threading import Event

import pytest

from icepack.errors import CatalogFault, ConfigError
from icepack.service.loop import map_in_threads, repeat
from icepack.service.retry import Backoff

from .fakes import HOUR


def test_results_are_in_the_order_of_the_items() -> None:
    assert map_in_threads(lambda number: number * 2, list(range(50)), 4) == [number * 2 for number in range(50)]
    assert map_in_threads(str, [], 4) == []


def test_the_first_exception_ends_the_work() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        map_in_threads(work, list(range(50)), 4)


def test_a_loop_continues_after_any_error_except_a_configuration_error() -> None:
    faults: list[Exception] = [ValueError("odd"), CatalogFault("No answer."), ConfigError("wrong")]
    reported: list[str] = []

    def step() -> None:
        raise faults.pop(0)

    with pytest.raises(ConfigError):
        repeat(step, every=HOUR, stop=Event(), report=reported.append, backoff=Backoff(initial_seconds=0.001))
    assert reported == ["Unexpected ValueError: odd", "No answer."]
