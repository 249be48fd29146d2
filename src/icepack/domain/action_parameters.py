"""Completes the parameters of a manually requested action: given values win, the policy supplies the rest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from icepack.domain.actions import ACTION_TYPES, Action, ActionKind, PartitionSelection, Strategy
from icepack.domain.policy import Policy
from icepack.domain.status import TableStatus


def complete_action(
    kind: ActionKind, given: Mapping[str, Any], status: TableStatus, policy: Policy, strategy: Strategy, now: datetime
) -> Action:
    """Returns the action with all its parameters; `strategy` is the default for a compaction that names none."""
    action: Action = ACTION_TYPES[kind](**{**_defaults(kind, given, status, policy, strategy, now), **given})
    return action


def _defaults(
    kind: ActionKind, given: Mapping[str, Any], status: TableStatus, policy: Policy, strategy: Strategy, now: datetime
) -> dict[str, Any]:
    match kind:
        case ActionKind.COMPACT:
            return _compaction_defaults(given, status, policy, given.get("strategy", strategy), now)
        case ActionKind.EXPIRE_SNAPSHOTS:
            return {"older_than": policy.snapshot_retention, "retain_last": policy.min_snapshots_to_keep}
        case ActionKind.REMOVE_ORPHAN_FILES:
            return {
                "older_than": policy.orphan_retention,
                "max_files": policy.max_orphan_files,
                "max_share": policy.max_orphan_share,
            }
        case ActionKind.REWRITE_POSITION_DELETES:
            return {"partition_filter": policy.partition_filter}
        case _:
            return {}


def _compaction_defaults(
    given: Mapping[str, Any], status: TableStatus, policy: Policy, strategy: Strategy, now: datetime
) -> dict[str, Any]:
    target = given.get("target_file_bytes", status.target_file_bytes)
    defaults = {
        "strategy": strategy,
        "layout": policy.layout,
        "columns": policy.columns,
        "target_file_bytes": target,
        "small_file_bytes": min(policy.small_file_threshold, target * 3 // 4),
        "min_input_files": policy.min_input_files,
        "engine": policy.engine,
        "proof": policy.proof,
        "partial_progress": policy.partial_progress,
        "partition_filter": policy.partition_filter,
        "max_cost_dollars": policy.max_cost,
    }
    if strategy is Strategy.DELETE_FILES:
        defaults["delete_file_threshold"] = 1
    if strategy is Strategy.TIME_SERIES:
        defaults["partitions"] = _select_closed_partitions(status, policy, now)
    return defaults


def _select_closed_partitions(status: TableStatus, policy: Policy, now: datetime) -> tuple[PartitionSelection, ...]:
    """Selects the partitions that no writer adds to any more; empty, which means all, if every partition is closed."""
    closed = [item for item in status.partitions if not item.is_open(now, policy.open_partition_grace)]
    if len(closed) == len(status.partitions):
        return ()
    return tuple(PartitionSelection(partition.key, partition.values) for partition in closed)
