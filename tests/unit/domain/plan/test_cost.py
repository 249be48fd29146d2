from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.plan.cost import (
    CostEstimate,
    CostModel,
    estimate_cost,
    estimate_rewrite_cost,
    estimate_saved_dollars,
)
from icepack.domain.units import GIB, MIB

MODEL = CostModel()


def rewrite(**facts):
    defaults = {"files_in": 10, "delete_files_in": 0, "bytes_in": 64 * MIB, "files_out": 1}
    return estimate_rewrite_cost(MODEL, **defaults | facts)


def test_the_prices_are_those_of_the_specification():
    assert estimate_cost(MODEL, gets=1000, puts=0).dollars == pytest.approx(0.0004)
    assert estimate_cost(MODEL, gets=0, puts=1000).dollars == pytest.approx(0.005)
    one_gb_second = CostModel(memory_gb=1, rewrite_bytes_per_core_second=MIB)
    assert estimate_cost(one_gb_second, gets=0, puts=0, bytes_rewritten=MIB).dollars == pytest.approx(0.0000166667)


def test_memory_is_paid_for_by_the_gigabyte():
    small, large = (estimate_cost(CostModel(memory_gb=size), gets=0, puts=0, bytes_rewritten=GIB) for size in (1, 3))
    assert large.dollars == pytest.approx(3 * small.dollars)


def test_a_rewrite_reads_footer_and_body_and_writes_in_parts():
    cost = rewrite(files_in=10, delete_files_in=5, bytes_in=64 * MIB)
    assert cost.get_requests == 30
    assert cost.put_requests == 2 + 4


def test_every_output_file_is_at_least_one_request():
    assert rewrite(bytes_in=1, files_out=3).put_requests == 3 + 4
    assert rewrite(files_in=0, bytes_in=0, files_out=0).put_requests == 4


def test_cores_shorten_the_time_and_not_the_work():
    alone, together = CostModel(parallelism=1), CostModel(parallelism=4)
    one, four = (estimate_cost(model, gets=0, puts=0, bytes_rewritten=80 * MIB) for model in (alone, together))
    assert one.compute_seconds == four.compute_seconds == pytest.approx(10)
    assert (one.duration_seconds, four.duration_seconds) == (pytest.approx(12), pytest.approx(4.5))


def test_a_model_of_zeros_divides_by_nothing():
    still = CostModel(parallelism=0, rewrite_bytes_per_core_second=0)
    assert estimate_cost(still, gets=0, puts=0, bytes_rewritten=0).duration_seconds == still.startup_seconds
    assert estimate_cost(still, gets=0, puts=0, bytes_rewritten=5).compute_seconds == 5


@given(st.integers(0, 10**6), st.integers(0, 10**15), st.integers(1, 1000))
def test_more_work_never_costs_less(files, size, more):
    less = rewrite(files_in=files, bytes_in=size)
    for greater in (rewrite(files_in=files + more, bytes_in=size), rewrite(files_in=files, bytes_in=size + more)):
        assert greater.dollars >= less.dollars
        assert greater.duration_seconds >= less.duration_seconds


def test_estimates_add_up_field_by_field():
    one = CostEstimate(get_requests=1, put_requests=2, compute_seconds=3, duration_seconds=4, dollars=5)
    assert one.plus(one) == CostEstimate(
        get_requests=2, put_requests=4, compute_seconds=6, duration_seconds=8, dollars=10
    )
    assert one.plus(CostEstimate()) == one


def test_a_file_that_is_gone_saves_its_requests_for_a_month():
    assert estimate_saved_dollars(MODEL, 100, scans_per_day=24) == pytest.approx(100 * 2 * 24 * 30 * 0.0004 / 1000)
    assert estimate_saved_dollars(MODEL, -5, scans_per_day=24) == 0
