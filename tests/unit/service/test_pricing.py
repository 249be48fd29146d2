"""What a job may cost is checked before it runs."""

from __future__ import annotations

import pytest

from icepack.domain.actions import Action, Compact, RewriteManifests
from icepack.domain.plan.cost import CostEstimate
from icepack.errors import Refused
from icepack.service.maintenance import RunRequest
from icepack.service.runs.cost_limit import Pricing

from .parts import TABLE

ESTIMATE = CostEstimate(get_requests=1, put_requests=1, compute_seconds=1, duration_seconds=1, dollars=0.5)


def priced(action: Action) -> RunRequest:
    return Pricing(lambda table, compaction: ESTIMATE)(RunRequest(table=TABLE, action=action))


def test_a_compaction_gets_its_estimate() -> None:
    assert priced(Compact()).estimate == ESTIMATE
    assert priced(Compact(max_cost_dollars=0.5)).estimate == ESTIMATE


def test_over_its_limit_it_is_refused() -> None:
    with pytest.raises(Refused, match="over the limit"):
        priced(Compact(max_cost_dollars=0.49))


def test_other_actions_have_none() -> None:
    assert priced(RewriteManifests()).estimate is None
