"""What has been spent from each budget today."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, tzinfo

from icepack.domain.fleet import BudgetPool, Spending, compute_realised_spending, estimate_spending, find_budget_pools
from icepack.domain.job import Job
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.history import HistoryStore
from icepack.domain.run import RunRecord
from icepack.domain.table import TableId
from icepack.service.advice import PolicyResolver
from icepack.service.fleet.candidates import CandidateSource

FIRST_PAGE_SIZE = 500

Sources = Mapping[TableId, CandidateSource]


class DailySpending:
    """Sums the measured cost of runs that have ended and the estimated cost of jobs that are queued or running."""

    def __init__(self, history: HistoryStore, policies: PolicyResolver, model: CostModel, zone: tzinfo) -> None:
        self._history = history
        self._policies = policies
        self._model = model
        self._zone = zone

    def compute(self, active: Iterable[Job], sources: Sources, now: datetime) -> dict[BudgetPool, float]:
        jobs = {job.id: job for job in active}
        runs = self._runs_since(find_midnight(now, self._zone))
        spent: dict[BudgetPool, float] = defaultdict(float)
        for run in runs:
            if run.job_id not in jobs:
                self._add(spent, run.table, compute_realised_spending(run, self._model), sources)
        started = {run.job_id: run for run in runs}
        for job in jobs.values():
            self._add(spent, job.table, self._estimate(job, started.get(job.id), sources), sources)
        return dict(spent)

    def _add(self, spent: dict[BudgetPool, float], table: TableId, cost: Spending, sources: Sources) -> None:
        properties = sources[table].properties if table in sources else {}
        for pool in find_budget_pools(self._policies.base, self._policies.rules, table, properties):
            spent[pool] += cost.of(pool.resource)

    def _estimate(self, job: Job, started: RunRecord | None, sources: Sources) -> Spending:
        """Uses the run's own estimate once it has started, else that of the recommendation for the table."""
        if started is not None and started.estimate is not None:
            return estimate_spending(started.estimate, self._model)
        actions = sources[job.table].recommendation.actions if job.table in sources else ()
        costs = (action.cost for action in actions if action.kind is job.kind)
        return next((estimate_spending(cost, self._model) for cost in costs), Spending())

    def _runs_since(self, since: datetime) -> list[RunRecord]:
        limit = FIRST_PAGE_SIZE
        while True:
            found = self._history.runs(limit=limit)
            if len(found) < limit or found[-1].started_at < since:
                return [run for run in found if run.started_at >= since]
            limit *= 4


def find_midnight(now: datetime, zone: tzinfo) -> datetime:
    """Returns the start of the current day in the time zone."""
    return datetime.combine(now.astimezone(zone).date(), time(), zone).astimezone(UTC)
