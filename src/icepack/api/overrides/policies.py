"""Policies and schedules: what the configuration says, what was set on top of it, and what comes of it next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from icepack.api.overrides.validation import policy_entries, schedule_entries
from icepack.api.responses import encoded
from icepack.api.schemas.fleet import PutPolicies, PutSchedules
from icepack.config import CompactionConfig, masked
from icepack.domain.access import Scopes, unlimited
from icepack.domain.policy import Policy
from icepack.domain.ports.access import Overrides, OverrideStore
from icepack.domain.ports.queue import TableSummary
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId, TablePattern
from icepack.errors import ConfigError
from icepack.service.fleet.upcoming import Upcoming
from icepack.service.live_overrides import POLICIES, SCHEDULES
from icepack.service.scheduler import Scheduler
from icepack.service.service import PolicyBook
from icepack.service.ttl_cache import Remembered
from icepack.service.views.table_index import Directory, Listing

REMEMBERED_SECONDS = 30.0
Line = dict[str, Any]


class Agenda:
    def __init__(
        self,
        *,
        config: CompactionConfig,
        overrides: OverrideStore,
        directory: Directory,
        policies: PolicyBook,
        scheduler: Callable[[], Scheduler],
        clock: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._overrides = overrides
        self._directory = directory
        self._policies = policies
        self._scheduler = scheduler
        self._clock = clock
        self._shown = masked(config)
        self._ahead: Remembered[bytes] = Remembered(REMEMBERED_SECONDS)
        self._lines: Remembered[tuple[list[Line], list[Line], Overrides]] = Remembered(1.0)

    def policies(self, scopes: Scopes) -> dict[str, Any]:
        configured = [_line(entry, "match") for entry in self._shown["policies"]]
        configured += [
            {"match": entry["name"], "settings": _of_table(entry)}
            for entry in self._shown["tables"]
            if _of_table(entry)
        ]
        kept, added, found = self._seen(POLICIES, scopes, configured, lambda entry: _line(entry, "match"))
        return {"base": self._shown["policy"], "configured": kept, "overrides": added, **_version(found)}

    def schedules(self, scopes: Scopes) -> dict[str, Any]:
        configured = [_schedule_line(entry) for entry in self._shown["tables"] if entry.get("schedule")]
        kept, added, found = self._seen(SCHEDULES, scopes, configured, _schedule_line)
        scheduler = self._shown["scheduler"]
        return {
            "enabled": scheduler["enabled"],
            "default_schedule": scheduler["default_schedule"],
            "timezone": scheduler["timezone"],
            "jitter": scheduler["jitter"],
            "configured": kept,
            "overrides": added,
            **_version(found),
        }

    def policy_of(self, table: TableId, properties: Mapping[str, str]) -> Policy:
        """All layers merged."""
        return self._policies.policy_for(table, properties)

    def put_policies(self, asked: PutPolicies, by: str) -> Overrides:
        """Raises BadOverride for what would be a mistake in icepack.yaml too."""
        entries = policy_entries(asked, self._config.strategies_on)
        return self._overrides.replace(POLICIES, entries, expected=asked.version, by=by)

    def put_schedules(self, asked: PutSchedules, by: str) -> Overrides:
        entries = schedule_entries(asked, self._config.strategies_on)
        return self._overrides.replace(SCHEDULES, entries, expected=asked.version, by=by)

    def ahead(self, scopes: Scopes, span: timedelta, limit: int, pattern: str | None) -> bytes:
        """What comes due within a span, as far as it was asked for; as JSON, since it is kept for a while."""
        key = (scopes, span, limit, pattern)
        return self._ahead.get(key, lambda: self._look_ahead(scopes, span, limit, pattern))

    def _look_ahead(self, scopes: Scopes, span: timedelta, limit: int, pattern: str | None) -> bytes:
        now = self._clock()
        scheduler = self._scheduler()
        listing = self._directory.listing().within(scopes)
        enabled = self._config.scheduler.enabled
        tables = (listing.select([pattern]) if pattern else list(listing.by_name)) if enabled else []
        found = scheduler.upcoming(tables, lambda t: self._windows(scheduler, listing, t), now, now + span, limit)
        return encoded(
            {
                "enabled": enabled,
                "from": now,
                "until": now + span,
                "timezone": str(scheduler.zone),
                "runs": [run_line(item) for item in found.runs],
                "total": found.total,
                "by_hour": [{"hour": hour, "runs": count} for hour, count in sorted(found.by_hour.items())],
            }
        )

    def _windows(self, scheduler: Scheduler, listing: Listing, table: TableId) -> tuple[Window, ...]:
        summary: TableSummary = listing.by_name[table]
        if not any("windows" in key for key in summary.brief.properties):
            return scheduler.windows(table)
        try:
            return self._policies.policy_for(table, summary.brief.properties).windows
        except ConfigError:
            return self._policies.policy_for(table, {}).windows

    def _seen(
        self, kind: str, scopes: Scopes, configured: list[Line], shown: Callable[[Mapping[str, Any]], Line]
    ) -> tuple[list[Line], list[Line], Overrides]:
        def look() -> tuple[list[Line], list[Line], Overrides]:
            found = self._overrides.read(kind)
            added = [shown(entry) for entry in found.entries]
            return self._about(configured, scopes), self._about(added, scopes), found

        return self._lines.get((kind, scopes), look)

    def _about(self, lines: list[Line], scopes: Scopes) -> list[Line]:
        """Those that mean a table which may be seen: other teams' names are their own."""
        if unlimited(scopes):
            return lines
        tables = self._directory.listing().within(scopes).by_name
        return [line for line in lines if any(map(TablePattern.parse(line["match"]).matches, tables))]

    def forget(self) -> None:
        """After a change of one's own, what follows from it is to be seen at once."""
        self._lines = Remembered(1.0)
        self._ahead = Remembered(REMEMBERED_SECONDS)


def _line(entry: Mapping[str, Any], name: str) -> Line:
    return {"match": entry[name], "settings": {key: value for key, value in entry.items() if key != name}}


def _of_table(entry: Mapping[str, Any]) -> dict[str, Any]:
    strategy = {"strategy": entry["strategy"]} if entry.get("strategy") else {}
    return {**entry.get("options", {}), **strategy}


def _schedule_line(entry: Mapping[str, Any]) -> Line:
    return {"match": entry["name"], "schedule": entry["schedule"], "options": _of_table(entry)}


def run_line(item: Upcoming) -> Line:
    """A run to come, as lists show it."""
    given, occurrence = item.entry.compaction, item.occurrence
    return {
        "table": str(item.table),
        "due_at": occurrence.due_at,
        "tick": occurrence.tick,
        "opens_at": occurrence.opens_at,
        "jitter_seconds": occurrence.jitter.total_seconds(),
        "schedule": item.entry.line,
        "compaction": None if given is None else dict(given),
    }


def _version(found: Overrides) -> dict[str, Any]:
    return {"version": found.version, "changed_at": found.changed_at, "changed_by": found.changed_by}
