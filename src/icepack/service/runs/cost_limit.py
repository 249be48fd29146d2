"""The limit on what a compaction may cost.

It is checked twice, each time with the estimate that is known then: when a job is submitted, so that the caller gets
an answer immediately, and when the run has planned from the current snapshot, because the table may have grown since.
"""

from __future__ import annotations

from icepack.domain.actions import Action, Compact
from icepack.domain.plan.cost import CostEstimate
from icepack.errors import Refused


class CostLimitExceeded(Refused):
    """A compaction is estimated to cost more than its limit."""

    def __init__(self, estimate: CostEstimate, limit_dollars: float) -> None:
        super().__init__(
            f"The estimated cost of ${estimate.dollars:.4f} is over the limit of ${limit_dollars:.4f}.",
            "Raise max_cost (--max-cost), or select fewer partitions with partition_filter (--where).",
        )
        self.estimate = estimate


def check_cost_limit(action: Action, estimate: CostEstimate | None) -> None:
    """Raises CostLimitExceeded if the estimate is over the action's limit."""
    limit_dollars = action.max_cost_dollars if isinstance(action, Compact) else None
    if limit_dollars is not None and estimate is not None and estimate.dollars > limit_dollars:
        raise CostLimitExceeded(estimate, limit_dollars)
