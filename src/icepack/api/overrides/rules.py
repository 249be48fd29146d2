"""Reads the rules of one kind of override, limited to what a caller may see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icepack.domain.access import Scopes, is_unlimited
from icepack.domain.ports.overrides import Overrides, OverrideStore
from icepack.domain.table import TablePattern
from icepack.service.ttl_cache import TtlCache
from icepack.service.views.table_index import TableIndex

CACHE_SECONDS = 1.0
Rule = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VisibleRules:
    configured: list[Rule]
    overrides: list[Rule]
    stored: Overrides

    @property
    def version(self) -> dict[str, Any]:
        """The version of the overrides, and who changed them when."""
        stored = self.stored
        return {"version": stored.version, "changed_at": stored.changed_at, "changed_by": stored.changed_by}


class OverrideRules:
    """The configured rules and the overrides of one kind: `policies` or `schedules`."""

    def __init__(
        self,
        kind: str,
        *,
        configured: list[Rule],
        present: Callable[[Mapping[str, Any]], Rule],
        store: OverrideStore,
        table_index: TableIndex,
    ) -> None:
        self._kind = kind
        self._configured = configured
        self._present = present
        self._store = store
        self._table_index = table_index
        self._cache: TtlCache[VisibleRules] = TtlCache(CACHE_SECONDS)

    def read(self, scopes: Scopes) -> VisibleRules:
        return self._cache.get(scopes, lambda: self._read(scopes))

    def replace(self, entries: Sequence[Mapping[str, Any]], *, expected: int | None, by: str) -> Overrides:
        """Replaces all overrides; raises VersionConflict unless they are at the expected version."""
        return self._store.replace(self._kind, entries, expected=expected, by=by)

    def clear_cache(self) -> None:
        """Makes a change visible immediately in this process."""
        self._cache = TtlCache(CACHE_SECONDS)

    def _read(self, scopes: Scopes) -> VisibleRules:
        stored = self._store.read(self._kind)
        overrides = [self._present(entry) for entry in stored.entries]
        return VisibleRules(self._limit(self._configured, scopes), self._limit(overrides, scopes), stored)

    def _limit(self, rules: list[Rule], scopes: Scopes) -> list[Rule]:
        """Keeps the rules that match a visible table: the names of other teams' tables are confidential."""
        if is_unlimited(scopes):
            return rules
        tables = self._table_index.listing().within(scopes).by_name
        return [rule for rule in rules if any(map(TablePattern.parse(rule["match"]).matches, tables))]


def read_table_options(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the policy settings of an entry under `tables` in icepack.yaml."""
    strategy = {"strategy": entry["strategy"]} if entry.get("strategy") else {}
    return {**entry.get("options", {}), **strategy}
