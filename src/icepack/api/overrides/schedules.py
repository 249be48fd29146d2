"""Schedules: those of the configuration, the overrides that were set through the API, and the runs they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from icepack.api.overrides.rules import OverrideRules, Rule, read_table_options
from icepack.api.overrides.validation import parse_schedules
from icepack.api.presenters.schedules import present_upcoming_run
from icepack.api.responses import encode_json
from icepack.api.schemas.schedules import PutSchedules
from icepack.config import CompactionConfig, mask_config
from icepack.domain.access import Scopes
from icepack.domain.ports.overrides import Overrides, OverrideStore
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId
from icepack.errors import ConfigError
from icepack.service.advice import PolicyResolver
from icepack.service.live_overrides import SCHEDULES
from icepack.service.scheduler import Scheduler
from icepack.service.ttl_cache import TtlCache
from icepack.service.views.table_index import TableIndex, TableListing

FORECAST_CACHE_SECONDS = 30.0
_SCHEDULER_SETTINGS = ("enabled", "default_schedule", "timezone", "jitter")


class ScheduleOverrides:
    def __init__(
        self,
        *,
        config: CompactionConfig,
        store: OverrideStore,
        table_index: TableIndex,
        resolver: PolicyResolver,
        scheduler: Callable[[], Scheduler],
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._table_index = table_index
        self._resolver = resolver
        self._scheduler = scheduler
        self._clock = clock
        masked = mask_config(config)
        self._settings = {name: masked["scheduler"][name] for name in _SCHEDULER_SETTINGS}
        self._rules = OverrideRules(
            SCHEDULES,
            configured=[_present_rule(entry) for entry in masked["tables"] if entry.get("schedule")],
            present=_present_rule,
            store=store,
            table_index=table_index,
        )
        self._forecasts: TtlCache[bytes] = TtlCache(FORECAST_CACHE_SECONDS)

    def read(self, scopes: Scopes) -> dict[str, Any]:
        rules = self._rules.read(scopes)
        return {**self._settings, "configured": rules.configured, "overrides": rules.overrides, **rules.version}

    def replace(self, request: PutSchedules, by: str) -> Overrides:
        """Replaces all schedule overrides; raises InvalidOverride or VersionConflict."""
        entries = parse_schedules(request, self._config.enabled_strategies)
        return self._rules.replace(entries, expected=request.version, by=by)

    def read_upcoming(self, scopes: Scopes, horizon: timedelta, limit: int, pattern: str | None) -> bytes:
        """Returns the upcoming runs as JSON; it is cached, because it takes a while with many tables."""
        key = (scopes, horizon, limit, pattern)
        return self._forecasts.get(key, lambda: self._forecast(scopes, horizon, limit, pattern))

    def clear_cache(self) -> None:
        """Makes a change of schedules, or of the policies' windows, visible immediately in this process."""
        self._rules.clear_cache()
        self._forecasts = TtlCache(FORECAST_CACHE_SECONDS)

    def _forecast(self, scopes: Scopes, horizon: timedelta, limit: int, pattern: str | None) -> bytes:
        now = self._clock()
        scheduler = self._scheduler()
        listing = self._table_index.listing().within(scopes)
        is_enabled = self._config.scheduler.enabled
        tables = (listing.select([pattern]) if pattern else list(listing.by_name)) if is_enabled else []
        forecast = scheduler.upcoming(
            tables, lambda table: self._find_windows(scheduler, listing, table), now, now + horizon, limit
        )
        return encode_json(
            {
                "enabled": is_enabled,
                "from": now,
                "until": now + horizon,
                "timezone": str(scheduler.zone),
                "runs": [present_upcoming_run(run) for run in forecast.runs],
                "total": forecast.total,
                "by_hour": [{"hour": hour, "runs": count} for hour, count in sorted(forecast.by_hour.items())],
            }
        )

    def _find_windows(self, scheduler: Scheduler, listing: TableListing, table: TableId) -> tuple[Window, ...]:
        properties = listing.by_name[table].brief.properties
        if not any("windows" in key for key in properties):
            return scheduler.windows(table)
        try:
            return self._resolver.policy_for(table, properties).windows
        except ConfigError:
            return self._resolver.policy_for(table, {}).windows


def _present_rule(entry: Mapping[str, Any]) -> Rule:
    return {"match": entry["name"], "schedule": entry["schedule"], "options": read_table_options(entry)}
