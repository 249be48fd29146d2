"""The day's budgets, and what of each is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from icepack.domain.access import Scopes
from icepack.domain.fleet import Pool, Resource, pools_of
from icepack.domain.job import Job
from icepack.domain.ports.queue import JobStore, TableCache, TableSummary
from icepack.domain.table import TableId
from icepack.errors import ConfigError
from icepack.service.fleet.active_jobs import active_jobs
from icepack.service.fleet.candidates import Known, from_cache
from icepack.service.fleet.spending import Purse
from icepack.service.service import PolicyBook
from icepack.service.ttl_cache import Remembered
from icepack.service.views.table_index import Directory, Listing

REMEMBERED_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be spent in a day by all tables that have it from the same layer."""

    layer: str
    resource: Resource
    limit: float
    """Dollars, or core-seconds."""
    spent: float
    """Since midnight: what runs took, and what jobs that wait or run should take."""


class Budgets:
    def __init__(
        self,
        *,
        purse: Purse,
        policies: PolicyBook,
        directory: Directory,
        jobs: JobStore,
        cache: TableCache,
        clock: Callable[[], datetime],
    ) -> None:
        self._purse = purse
        self._policies = policies
        self._directory = directory
        self._jobs = jobs
        self._cache = cache
        self._clock = clock
        self._remembered: Remembered[tuple[Budget, ...]] = Remembered(REMEMBERED_SECONDS)

    def read(self, scopes: Scopes) -> tuple[Budget, ...]:
        """Those that a table draws on which may be seen; added up at most a minute ago."""
        return self._remembered.get(scopes, lambda: self._add_up(self._directory.listing().within(scopes)))

    def _add_up(self, listing: Listing) -> tuple[Budget, ...]:
        pools = {pool for item in listing.tables for pool in self._pools(item)} if self._any(listing) else set()
        if not pools:
            return ()
        active = list(active_jobs(self._jobs))
        spent = self._purse.spent(active, self._known(active), self._clock())
        return tuple(
            Budget(layer=pool.layer, resource=pool.resource, limit=pool.limit, spent=spent.get(pool, 0.0))
            for pool in sorted(pools)
        )

    def _any(self, listing: Listing) -> bool:
        """Most have none, and need not be asked table by table."""
        names = {resource.value for resource in Resource}
        base = any(getattr(self._policies.base, name) is not None for name in names)
        ruled = any(names & set(rule.values) for rule in self._policies.rules)
        return base or ruled or any("daily" in key for item in listing.tables for key in item.brief.properties)

    def _pools(self, item: TableSummary) -> tuple[Pool, ...]:
        base, rules = self._policies.base, self._policies.rules
        try:
            return pools_of(base, rules, item.table, item.brief.properties)
        except ConfigError:
            return pools_of(base, rules, item.table, {})

    def _known(self, active: list[Job]) -> Mapping[TableId, Known]:
        found = (self._cache.get(table) for table in {job.table for job in active})
        known = (from_cache(cached) for cached in found if cached is not None)
        return {item.table: item for item in known if item is not None}
