"""Rewrites manifests, one partition spec at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icepack.domain.actions import RewriteManifests
from icepack.domain.ports.engine import EngineResult, RunContext
from icepack.engine.actions.options import check_options
from icepack.engine.java import iceberg_actions
from icepack.errors import Cancelled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST_OPTIONS = frozenset({"use-caching", "staging-location", "sort-by"})


def rewrite_manifests(spark: SparkSession, table: Any, action: RewriteManifests, context: RunContext) -> EngineResult:
    options = check_options(action.options, MANIFEST_OPTIONS, "rewrite_manifests")
    rewritten = 0
    for spec_id in [action.spec_id] if action.spec_id is not None else _fragmented_specs(table):
        if context.cancel.is_set():
            raise Cancelled("Stopped before all manifests were rewritten.")
        table.refresh()
        java_action = iceberg_actions.get_actions(spark).rewriteManifests(table).specId(spec_id)
        if "use-caching" in options:
            java_action.option("use-caching", options["use-caching"])
        if "staging-location" in options:
            java_action.stagingLocation(options["staging-location"])
        if "sort-by" in options:
            java_action.sortBy([name.strip() for name in options["sort-by"].split(",")])
        result = iceberg_actions.add_stamp(java_action, context).execute()
        rewritten += sum(1 for _ in result.rewrittenManifests())
    return EngineResult(details={"rewritten_manifests": rewritten})


def _fragmented_specs(table: Any) -> list[int]:
    """The partition specs with more than one manifest; Iceberg rewrites the manifests of one spec at a time."""
    snapshot = table.currentSnapshot()
    if snapshot is None:
        return []
    counts: dict[int, int] = {}
    for manifest in snapshot.allManifests(table.io()):
        spec_id = int(manifest.partitionSpecId())
        counts[spec_id] = counts.get(spec_id, 0) + 1
    return sorted(spec_id for spec_id, count in counts.items() if count > 1)
