"""Recommendation: what to do about a table, in order, with reasons and expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from icepack.domain.actions import (
    ActionKind,
)
from icepack.domain.recommendation.cleanup import (
    decide_expiry,
    decide_manifests,
    decide_orphans,
    decide_position_deletes,
    decide_stats,
)
from icepack.domain.recommendation.compaction import choose_strategy, decide_compaction
from icepack.domain.recommendation.types import (
    ExpectedEffect,
    PastRun,
    Planned,
    Recommendation,
    RecommendedAction,
    Situation,
    SkippedAction,
    Verdict,
    conflict_probability,
)
from icepack.domain.status import TableStatus
from icepack.domain.units import format_duration

__all__ = [
    "ExpectedEffect",
    "PastRun",
    "Recommendation",
    "RecommendedAction",
    "Situation",
    "SkippedAction",
    "choose_strategy",
    "conflict_probability",
    "recommend",
]


def recommend(situation: Situation) -> Recommendation:
    """One verdict per action, in the order in which they run."""
    verdicts = list(_verdicts(situation))
    return Recommendation(
        table=situation.status.table,
        snapshot_id=situation.status.snapshot_id,
        made_at=situation.now,
        actions=tuple(verdict for verdict in verdicts if isinstance(verdict, RecommendedAction)),
        skipped=tuple(verdict for verdict in verdicts if isinstance(verdict, SkippedAction)),
    )


def _verdicts(situation: Situation) -> Iterator[Verdict]:
    policy = situation.policy
    if not policy.enabled:
        yield from (SkippedAction(kind=kind, reason="The policy leaves this table alone.") for kind in ActionKind)
        return
    planned: list[RecommendedAction] = []
    for kind in ActionKind:
        if kind not in policy.actions:
            yield SkippedAction(kind=kind, reason="Switched off by policy.")
            continue
        verdict = _not_again(situation, _within_cost(situation, _DECIDERS[kind](situation, planned)))
        if isinstance(verdict, RecommendedAction):
            planned.append(verdict)
        yield verdict


def _within_cost(situation: Situation, verdict: Verdict) -> Verdict:
    limit = situation.policy.max_cost
    if isinstance(verdict, SkippedAction) or limit is None or verdict.cost.dollars <= limit:
        return verdict
    return SkippedAction(
        kind=verdict.kind,
        reason=f"Estimated at ${verdict.cost.dollars:.4f}, over the limit of ${limit:.4f} (max_cost).",
    )


def _not_again(situation: Situation, verdict: Verdict) -> Verdict:
    """What ran a moment ago, or did nothing at this very snapshot, is not asked for again."""
    if isinstance(verdict, SkippedAction):
        return verdict
    last = situation.last(verdict.kind)
    if last is None:
        return verdict
    same_snapshot = last.snapshot_id_after == situation.status.snapshot_id
    age = max(situation.now - last.finished_at, timedelta())
    if same_snapshot and last.changed_nothing and not _depends_on_time(verdict.kind):
        return SkippedAction(kind=verdict.kind, reason="It ran on this very snapshot and found nothing to do.")
    if age < situation.policy.repeat_after and _unwritten_since(last, situation.status):
        return SkippedAction(
            kind=verdict.kind, reason=f"It ran {format_duration(age)} ago, and nothing was written since."
        )
    return verdict


def _unwritten_since(run: PastRun, status: TableStatus) -> bool:
    """Whether nothing but maintenance has committed since: the actions of one run follow each other."""
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


_DECIDERS: dict[ActionKind, Callable[[Situation, Planned], Verdict]] = {
    ActionKind.COMPACT: decide_compaction,
    ActionKind.REWRITE_POSITION_DELETES: decide_position_deletes,
    ActionKind.REWRITE_MANIFESTS: decide_manifests,
    ActionKind.EXPIRE_SNAPSHOTS: decide_expiry,
    ActionKind.REMOVE_ORPHAN_FILES: decide_orphans,
    ActionKind.COMPUTE_STATS: decide_stats,
}
