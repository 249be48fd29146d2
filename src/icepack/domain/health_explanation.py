"""Explains a health score: what each issue means, how many points it costs, and which action recovers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import FIXING_ACTIONS
from icepack.domain.health import HealthReport, Issue, IssueCode, Severity
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.recommendation import ExpectedEffect, Recommendation, RecommendedAction


@dataclass(frozen=True, slots=True)
class IssueDescription:
    """The title of an issue, why it matters, and the most points it can cost."""

    title: str
    why: str
    most_points: float


ISSUE_DESCRIPTIONS: Mapping[IssueCode, IssueDescription] = {
    IssueCode.SMALL_FILES: IssueDescription(
        "Small files", "Readers open every file, however little data it holds.", 40
    ),
    IssueCode.DELETE_PRESSURE: IssueDescription(
        "Delete files to apply", "Deleted rows are still stored, and every read has to filter them out.", 25
    ),
    IssueCode.DANGLING_DELETES: IssueDescription(
        "Dangling delete files", "They apply to no data file, but query planning still reads them.", 10
    ),
    IssueCode.TOO_MANY_SNAPSHOTS: IssueDescription(
        "Too many snapshots", "Every commit rewrites the metadata file, which lists all of them.", 10
    ),
    IssueCode.SNAPSHOTS_PAST_RETENTION: IssueDescription(
        "Snapshots past retention", "They keep files in storage that no reader needs.", 15
    ),
    IssueCode.FRAGMENTED_MANIFESTS: IssueDescription(
        "Fragmented manifests", "Query planning opens every manifest, and each holds only a few files.", 15
    ),
    IssueCode.OVERSIZED_MANIFESTS: IssueDescription(
        "Oversized manifests", "A single task reads the whole manifest while query planning waits.", 5
    ),
    IssueCode.METADATA_BLOAT: IssueDescription(
        "Large metadata file", "Every reader has to load it before anything else.", 5
    ),
    IssueCode.SKEWED_PARTITIONS: IssueDescription(
        "Skewed partitions", "Work on the largest partition takes as long as on all the others together.", 3
    ),
    IssueCode.STALE_COMPACTION: IssueDescription(
        "Overdue compaction", "Writers keep adding small files, and nothing merges them.", 5
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueExplanation:
    """Why an issue lowers the score."""

    code: IssueCode
    severity: Severity
    title: str
    sentence: str
    why: str
    # How many points the issue takes from the score.
    points: float
    # How many points it could take at most.
    most_points: float
    # The action that recovers the points; null if no action reliably does.
    cured_by: ActionKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedGain:
    """The estimated benefit and cost of a recommended action."""

    action: ActionKind
    reason: str
    # How many points the score is expected to recover.
    points: float
    effect: ExpectedEffect
    cost: CostEstimate
    # The probability that a concurrent commit conflicts with the action.
    conflict_probability: float


def explain_health(health: HealthReport) -> tuple[IssueExplanation, ...]:
    """Explains every issue, in the report's order: most points first."""
    return tuple(_explain_issue(issue) for issue in health.issues)


def _explain_issue(issue: Issue) -> IssueExplanation:
    description = ISSUE_DESCRIPTIONS[issue.code]
    return IssueExplanation(
        code=issue.code,
        severity=issue.severity,
        title=description.title,
        sentence=issue.sentence,
        why=description.why,
        points=issue.penalty,
        most_points=description.most_points,
        cured_by=FIXING_ACTIONS.get(issue.code),
    )


def estimate_gains(health: HealthReport, recommendation: Recommendation | None) -> tuple[ExpectedGain, ...]:
    """Estimates the gain of each recommended action, in the order in which the actions run."""
    return tuple(_estimate_gain(health, item) for item in recommendation.actions) if recommendation else ()


def _estimate_gain(health: HealthReport, recommended: RecommendedAction) -> ExpectedGain:
    points = sum(issue.penalty for issue in health.issues if FIXING_ACTIONS.get(issue.code) is recommended.kind)
    return ExpectedGain(
        action=recommended.kind,
        reason=recommended.reason,
        points=round(points, 1),
        effect=recommended.effect,
        cost=recommended.cost,
        conflict_probability=recommended.conflict_probability,
    )


def estimate_score(health: HealthReport, recommendation: Recommendation | None) -> int:
    """Estimates the score after all recommended actions have had their expected effect."""
    won = sum(gain.points for gain in estimate_gains(health, recommendation))
    return max(health.score, round(min(100 - sum(issue.penalty for issue in health.issues) + won, 100)))
