"""What a day has cost so far, budget by budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, tzinfo

from icepack.domain.fleet import Pool, Spending, expected_spending, pools_of, realised_spending
from icepack.domain.job import Job
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.engine import HistoryStore
from icepack.domain.run import RunRecord
from icepack.domain.table import TableId
from icepack.service.fleet.candidates import Known
from icepack.service.service import PolicyBook

FIRST_PAGE = 500


class Purse:
    """Runs that ended cost what they took; jobs that wait or run, what they should."""

    def __init__(self, history: HistoryStore, policies: PolicyBook, model: CostModel, zone: tzinfo) -> None:
        self._history = history
        self._policies = policies
        self._model = model
        self._zone = zone

    def spent(self, active: Iterable[Job], known: Mapping[TableId, Known], now: datetime) -> dict[Pool, float]:
        jobs = {job.id: job for job in active}
        runs = self._runs_since(midnight(now, self._zone))
        spent: dict[Pool, float] = defaultdict(float)
        for run in runs:
            if run.job_id not in jobs:
                self._book(spent, run.table, realised_spending(run, self._model), known)
        begun = {run.job_id: run for run in runs}
        for job in jobs.values():
            self._book(spent, job.table, self._expected(job, begun.get(job.id), known), known)
        return dict(spent)

    def _book(self, spent: dict[Pool, float], table: TableId, cost: Spending, known: Mapping[TableId, Known]) -> None:
        properties = known[table].properties if table in known else {}
        for pool in pools_of(self._policies.base, self._policies.rules, table, properties):
            spent[pool] += cost.of(pool.resource)

    def _expected(self, job: Job, begun: RunRecord | None, known: Mapping[TableId, Known]) -> Spending:
        """By its own estimate once it runs, before that by what is recommended for its table."""
        if begun is not None and begun.estimate is not None:
            return expected_spending(begun.estimate, self._model)
        actions = known[job.table].recommendation.actions if job.table in known else ()
        return next((expected_spending(a.cost, self._model) for a in actions if a.kind is job.kind), Spending())

    def _runs_since(self, since: datetime) -> list[RunRecord]:
        limit = FIRST_PAGE
        while True:
            found = self._history.runs(limit=limit)
            if len(found) < limit or found[-1].started_at < since:
                return [run for run in found if run.started_at >= since]
            limit *= 4


def midnight(now: datetime, zone: tzinfo) -> datetime:
    """When this day began by the clock on the wall."""
    return datetime.combine(now.astimezone(zone).date(), time(), zone).astimezone(UTC)
