"""Decides on every maintenance action of a table, in the order in which the actions run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from icepack.domain.actions import ActionKind
from icepack.domain.recommendation.cleanup import (
    decide_expiry,
    decide_manifests,
    decide_orphans,
    decide_position_deletes,
    decide_stats,
)
from icepack.domain.recommendation.compaction import decide_compaction
from icepack.domain.recommendation.types import (
    ActionDecision,
    PastRun,
    PlannedActions,
    Recommendation,
    RecommendedAction,
    Situation,
    SkippedAction,
)
from icepack.domain.status import TableStatus
from icepack.domain.units import format_duration


def recommend(situation: Situation) -> Recommendation:
    """Recommends or skips every action, in the order in which the actions run."""
    decisions = list(_decide_all(situation))
    return Recommendation(
        table=situation.status.table,
        snapshot_id=situation.status.snapshot_id,
        made_at=situation.now,
        actions=tuple(decision for decision in decisions if isinstance(decision, RecommendedAction)),
        skipped=tuple(decision for decision in decisions if isinstance(decision, SkippedAction)),
    )


def _decide_all(situation: Situation) -> Iterator[ActionDecision]:
    policy = situation.policy
    if not policy.enabled:
        yield from (SkippedAction(kind=kind, reason="The policy excludes this table.") for kind in ActionKind)
        return
    planned: list[RecommendedAction] = []
    for kind in ActionKind:
        if kind not in policy.actions:
            yield SkippedAction(kind=kind, reason="Disabled by policy.")
            continue
        decision = _DECIDERS[kind](situation, planned)
        decision = _skip_repeated(situation, _skip_over_cost(situation, decision))
        if isinstance(decision, RecommendedAction):
            planned.append(decision)
        yield decision


def _skip_over_cost(situation: Situation, decision: ActionDecision) -> ActionDecision:
    limit = situation.policy.max_cost
    if isinstance(decision, SkippedAction) or limit is None or decision.cost.dollars <= limit:
        return decision
    return SkippedAction(
        kind=decision.kind,
        reason=f"The estimated cost of ${decision.cost.dollars:.4f} is over the limit of ${limit:.4f} (max_cost).",
    )


def _skip_repeated(situation: Situation, decision: ActionDecision) -> ActionDecision:
    """Skips an action that ran recently, or that had no effect on the current snapshot."""
    if isinstance(decision, SkippedAction):
        return decision
    last = situation.last_run(decision.kind)
    if last is None:
        return decision
    same_snapshot = last.snapshot_id_after == situation.status.snapshot_id
    age = max(situation.now - last.finished_at, timedelta())
    if same_snapshot and last.changed_nothing and not _depends_on_time(decision.kind):
        return SkippedAction(kind=decision.kind, reason="Already ran on this snapshot and found nothing to do.")
    if age < situation.policy.repeat_after and _is_unwritten_since(last, situation.status):
        return SkippedAction(
            kind=decision.kind,
            reason=f"Ran {format_duration(age)} ago, and nothing was written since "
            f"(repeat_after: {format_duration(situation.policy.repeat_after)}).",
        )
    return decision


def _is_unwritten_since(run: PastRun, status: TableStatus) -> bool:
    """Whether only maintenance has committed since the run; the actions of one maintenance run follow each other."""
    entries = {entry.snapshot_id: entry for entry in status.snapshots.entries}
    current = status.snapshot_id
    while current != run.snapshot_id_after:
        entry = entries.get(current) if current is not None else None
        if entry is None or not (entry.job_id or entry.operation == "replace"):
            return False
        current = entry.parent_id
    return True


def _depends_on_time(kind: ActionKind) -> bool:
    return kind in (ActionKind.EXPIRE_SNAPSHOTS, ActionKind.REMOVE_ORPHAN_FILES)


_DECIDERS: dict[ActionKind, Callable[[Situation, PlannedActions], ActionDecision]] = {
    ActionKind.COMPACT: decide_compaction,
    ActionKind.REWRITE_POSITION_DELETES: decide_position_deletes,
    ActionKind.REWRITE_MANIFESTS: decide_manifests,
    ActionKind.EXPIRE_SNAPSHOTS: decide_expiry,
    ActionKind.REMOVE_ORPHAN_FILES: decide_orphans,
    ActionKind.COMPUTE_STATS: decide_stats,
}
