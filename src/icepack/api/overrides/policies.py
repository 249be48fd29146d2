"""Policies: those of the configuration, and the overrides that were set through the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icepack.api.overrides.rules import OverrideRules, Rule, read_table_options
from icepack.api.overrides.validation import parse_policies
from icepack.api.schemas.policies import PutPolicies
from icepack.config import CompactionConfig, mask_config
from icepack.domain.access import Scopes
from icepack.domain.policy import Policy
from icepack.domain.ports.overrides import Overrides, OverrideStore
from icepack.domain.table import TableId
from icepack.service.advice import PolicyResolver
from icepack.service.live_overrides import POLICIES
from icepack.service.views.table_index import TableIndex


class PolicyOverrides:
    def __init__(
        self, *, config: CompactionConfig, store: OverrideStore, table_index: TableIndex, resolver: PolicyResolver
    ) -> None:
        self._config = config
        self._resolver = resolver
        masked = mask_config(config)
        self._base = masked["policy"]
        self._rules = OverrideRules(
            POLICIES,
            configured=_list_configured(masked),
            present=_present_rule,
            store=store,
            table_index=table_index,
        )

    def read(self, scopes: Scopes) -> dict[str, Any]:
        rules = self._rules.read(scopes)
        layers = {"base": self._base, "configured": rules.configured, "overrides": rules.overrides}
        return {**layers, **rules.version}

    def replace(self, request: PutPolicies, by: str) -> Overrides:
        """Replaces all policy overrides; raises InvalidOverride or VersionConflict."""
        entries = parse_policies(request, self._config.enabled_strategies)
        return self._rules.replace(entries, expected=request.version, by=by)

    def resolve(self, table: TableId, properties: Mapping[str, str]) -> Policy:
        """Returns the effective policy of a table, from all layers."""
        return self._resolver.policy_for(table, properties)

    def clear_cache(self) -> None:
        self._rules.clear_cache()


def _list_configured(masked: Mapping[str, Any]) -> list[Rule]:
    """Lists the entries of `policies` in icepack.yaml, then the settings of those of `tables`."""
    rules = [_present_rule(entry) for entry in masked["policies"]]
    of_tables = ((entry["name"], read_table_options(entry)) for entry in masked["tables"])
    return [*rules, *({"match": name, "settings": settings} for name, settings in of_tables if settings)]


def _present_rule(entry: Mapping[str, Any]) -> Rule:
    return {"match": entry["match"], "settings": {key: value for key, value in entry.items() if key != "match"}}
