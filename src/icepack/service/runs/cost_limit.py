"""What a job is expected to cost, looked up before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from icepack.domain.actions import Compact
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.table import TableId
from icepack.errors import Refused
from icepack.service.maintenance import RunRequest


class Pricing:
    """Adds the estimate to a compaction, and refuses one that is over what it may cost."""

    def __init__(self, estimate: Callable[[TableId, Compact], CostEstimate]) -> None:
        self._estimate = estimate

    def __call__(self, request: RunRequest) -> RunRequest:
        if not isinstance(request.action, Compact):
            return request
        priced = replace(request, estimate=self._estimate(request.table, request.action))
        check_cost(priced)
        return priced


def check_cost(request: RunRequest) -> None:
    limit = request.action.max_cost_dollars if isinstance(request.action, Compact) else None
    if limit is not None and request.estimate is not None and request.estimate.dollars > limit:
        raise Refused(
            f"The estimate is ${request.estimate.dollars:.4f}, over the limit of ${limit:.4f}.",
            "Raise max_cost (--max-cost), or narrow the work with a partition filter (--where).",
        )
