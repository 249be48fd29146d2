"""The daily budgets, and what has been spent from each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from icepack.domain.access import Scopes
from icepack.domain.fleet import BudgetPool, Resource, find_budget_pools
from icepack.domain.job import Job
from icepack.domain.ports.queue import JobStore
from icepack.domain.ports.table_cache import TableCache, TableSummary
from icepack.domain.table import TableId
from icepack.errors import ConfigError
from icepack.service.advice import PolicyResolver
from icepack.service.fleet.active_jobs import list_active_jobs
from icepack.service.fleet.candidates import CandidateSource
from icepack.service.fleet.spending import DailySpending
from icepack.service.ttl_cache import TtlCache
from icepack.service.views.table_index import TableIndex, TableListing

CACHE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What all tables that have their budget from the same layer may spend in a day."""

    layer: str
    resource: Resource
    limit: float
    """Dollars or core-seconds."""
    spent: float
    """Since midnight: the measured cost of runs, and the estimated cost of queued and running jobs."""


class Budgets:
    """Reads the budgets of the tables in scope."""

    def __init__(
        self,
        *,
        spending: DailySpending,
        policies: PolicyResolver,
        table_index: TableIndex,
        jobs: JobStore,
        cache: TableCache,
        clock: Callable[[], datetime],
    ) -> None:
        self._spending = spending
        self._policies = policies
        self._table_index = table_index
        self._jobs = jobs
        self._cache = cache
        self._clock = clock
        self._budgets: TtlCache[tuple[Budget, ...]] = TtlCache(CACHE_SECONDS)

    def read(self, scopes: Scopes) -> tuple[Budget, ...]:
        """Returns the budgets of the tables in scope, at most a minute old."""
        return self._budgets.get(scopes, lambda: self._compute(self._table_index.listing().within(scopes)))

    def _compute(self, listing: TableListing) -> tuple[Budget, ...]:
        pools = self._find_pools(listing) if self._has_budgets(listing) else set()
        if not pools:
            return ()
        active = list(list_active_jobs(self._jobs))
        spent = self._spending.compute(active, self._sources_of(active), self._clock())
        return tuple(
            Budget(layer=pool.layer, resource=pool.resource, limit=pool.limit, spent=spent.get(pool, 0.0))
            for pool in sorted(pools)
        )

    def _has_budgets(self, listing: TableListing) -> bool:
        """Most installations have no budgets; this check saves resolving the policy of every table."""
        names = {resource.value for resource in Resource}
        in_base = any(getattr(self._policies.base, name) is not None for name in names)
        in_rules = any(names & set(rule.values) for rule in self._policies.rules)
        return in_base or in_rules or any("daily" in key for item in listing.tables for key in item.brief.properties)

    def _find_pools(self, listing: TableListing) -> set[BudgetPool]:
        return {pool for item in listing.tables for pool in self._pools_of(item)}

    def _pools_of(self, item: TableSummary) -> tuple[BudgetPool, ...]:
        base, rules = self._policies.base, self._policies.rules
        try:
            return find_budget_pools(base, rules, item.table, item.brief.properties)
        except ConfigError:
            return find_budget_pools(base, rules, item.table, {})

    def _sources_of(self, active: list[Job]) -> Mapping[TableId, CandidateSource]:
        found = (self._cache.get(table) for table in {job.table for job in active})
        sources = (CandidateSource.from_cache(cached) for cached in found if cached is not None)
        return {source.table: source for source in sources if source is not None}
