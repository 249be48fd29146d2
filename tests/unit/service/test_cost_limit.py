"""The limit on what a compaction may cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icepack.domain.actions import Compact, RewriteManifests
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.run import RunState
from icepack.service.runs.cost_limit import CostLimitExceeded, check_cost_limit

from .test_maintenance import ALL, FakeHistory, FakeTable, run

ESTIMATE = CostEstimate(get_requests=1, put_requests=1, compute_seconds=1, duration_seconds=1, dollars=0.5)


@pytest.mark.parametrize("action", [Compact(), Compact(max_cost_dollars=0.5), RewriteManifests()])
def test_an_estimate_within_the_limit_passes(action: Compact | RewriteManifests) -> None:
    check_cost_limit(action, ESTIMATE)


def test_an_estimate_over_the_limit_is_refused() -> None:
    with pytest.raises(CostLimitExceeded, match=r"cost of \$0\.5000 is over the limit of \$0\.4900") as refused:
        check_cost_limit(Compact(max_cost_dollars=0.49), ESTIMATE)
    assert refused.value.estimate == ESTIMATE


def test_without_an_estimate_nothing_is_refused() -> None:
    check_cost_limit(Compact(max_cost_dollars=0.0), None)


def test_a_run_records_the_estimate_of_its_plan() -> None:
    table, history = FakeTable(), FakeHistory()
    record = run(table, ALL, history)
    assert table.contexts[0].plan is not None
    assert record.estimate == table.contexts[0].plan.cost
    assert [saved.estimate for saved in history.saved] == [record.estimate] * 2, "also while it is running"


def test_a_run_over_its_limit_is_refused_before_the_engine_starts() -> None:
    table, history = FakeTable(), FakeHistory()
    record = run(table, replace(ALL, max_cost_dollars=0.0), history)
    assert (record.state, record.error, record.retryable) == (RunState.REFUSED, "CostLimitExceeded", False)
    assert "over the limit of $0.0000" in record.message
    assert record.estimate is not None
    assert (table.contexts, [saved.state for saved in history.saved]) == ([], [RunState.REFUSED])


def test_an_estimate_that_was_checked_before_is_not_checked_again() -> None:
    record = run(FakeTable(), replace(ALL, max_cost_dollars=0.0), estimate=ESTIMATE)
    assert (record.state, record.estimate) == (RunState.SUCCEEDED, ESTIMATE)


def test_other_actions_have_no_estimate() -> None:
    assert run(FakeTable(), RewriteManifests()).estimate is None
