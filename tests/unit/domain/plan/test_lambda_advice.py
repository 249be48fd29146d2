from __future__ import annotations

from datetime import timedelta

import pytest

from domain.factories import HOUR
from icepack.domain.plan.lambda_advice import advise_lambda, choose_lambda_memory_mb, should_use_lambda
from icepack.domain.units import GIB, MIB


@pytest.mark.parametrize(
    ("size", "memory_mb"),
    [
        (0, 512),
        (100 * MIB - 1, 512),
        (100 * MIB, 1024),
        (500 * MIB - 1, 1024),
        (500 * MIB, 2048),
        (1000 * MIB, 3008),
        (50 * GIB, 3008),
    ],
)
def test_memory_follows_the_size_of_the_input(size, memory_mb):
    assert choose_lambda_memory_mb(size) == memory_mb


@pytest.mark.parametrize(
    ("size", "minutes", "every", "use"),
    [
        (GIB, 5, timedelta(minutes=10), True),
        (GIB, 15, None, False),
        (20 * GIB, 5, timedelta(minutes=10), False),
        (20 * GIB, 5, HOUR, False),
        (20 * GIB, 5, 2 * HOUR, True),
        (20 * GIB, 5, None, True),
        (10 * GIB, 5, HOUR, False),
    ],
)
def test_lambda_is_advised_for_short_work_that_is_sporadic_or_small(size, minutes, every, use):
    duration = timedelta(minutes=minutes)
    advice = advise_lambda(size, duration, every)
    assert should_use_lambda(size, duration, every) is use
    assert (advice.fits, advice.memory_mb) == (use, choose_lambda_memory_mb(size))


@pytest.mark.parametrize(
    ("size", "minutes", "every", "reason"),
    [
        (GIB, 20, None, "An estimated 20m is over the time limit of 15m."),
        (GIB, 5, None, "An estimated 5m is under the time limit of 15m, and 1.0 GB is under 10.0 GB."),
        (
            20 * GIB,
            5,
            None,
            "An estimated 5m is under the time limit of 15m, and compaction runs less than once per hour.",
        ),
        (20 * GIB, 5, HOUR, "20.0 GB is over 10.0 GB, and compaction runs at least once per hour."),
    ],
)
def test_the_advice_names_the_limit_that_decided(size, minutes, every, reason):
    assert advise_lambda(size, timedelta(minutes=minutes), every).reason == reason
