"""A score in plain words: what each issue means, how many points it takes, and who wins them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from icepack.domain.actions import ActionKind
from icepack.domain.fleet import CURES
from icepack.domain.health import HealthReport, Issue, IssueCode, Severity
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.recommendation.recommend import ExpectedEffect, Recommendation, RecommendedAction


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an issue is called, why it matters, and the most points that it can take."""

    title: str
    why: str
    most_points: float


MEANINGS: Mapping[IssueCode, Meaning] = {
    IssueCode.SMALL_FILES: Meaning("Too many small files", "Readers open every file, however little is in it.", 40),
    IssueCode.DELETE_PRESSURE: Meaning(
        "Deletes weigh on reads", "Deleted rows are still stored, and every read has to leave them out again.", 25
    ),
    IssueCode.DANGLING_DELETES: Meaning(
        "Delete files without use", "They apply to nothing any more, yet every query plan looks at them.", 10
    ),
    IssueCode.TOO_MANY_SNAPSHOTS: Meaning(
        "Too many snapshots", "Each is listed in the metadata file, which every commit writes anew.", 10
    ),
    IssueCode.SNAPSHOTS_PAST_RETENTION: Meaning(
        "Snapshots past their retention", "They keep files on storage that nobody reads.", 15
    ),
    IssueCode.FRAGMENTED_MANIFESTS: Meaning(
        "Scattered manifests", "Query planning opens them one by one, and they hold next to nothing.", 15
    ),
    IssueCode.OVERSIZED_MANIFESTS: Meaning(
        "Oversized manifests", "One of them is read by one task alone, and planning waits for it.", 5
    ),
    IssueCode.METADATA_BLOAT: Meaning("Large metadata file", "Every reader has to load it before anything else.", 5),
    IssueCode.SKEWED_PARTITIONS: Meaning(
        "Uneven partitions", "Work on the largest takes as long as all the others together.", 3
    ),
    IssueCode.STALE_COMPACTION: Meaning("Compaction is overdue", "Small files keep coming and nothing merges them.", 5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why points are missing from 100."""

    code: IssueCode
    severity: Severity
    title: str
    sentence: str
    why: str
    points: float
    """How many it takes from the score."""
    most_points: float
    """How many it could take."""
    cured_by: ActionKind | None
    """The action that wins them back; none does for sure where this is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a recommended action should bring, and what it takes; all of it estimated."""

    action: ActionKind
    reason: str
    points: float
    """How many the score should win back."""
    effect: ExpectedEffect
    cost: CostEstimate
    conflict_probability: float
    """The chance that a writer gets in its way."""


def explain(health: HealthReport) -> tuple[Reason, ...]:
    """The heaviest first."""
    return tuple(_reason(issue) for issue in health.issues)


def _reason(issue: Issue) -> Reason:
    meaning = MEANINGS[issue.code]
    return Reason(
        code=issue.code,
        severity=issue.severity,
        title=meaning.title,
        sentence=issue.sentence,
        why=meaning.why,
        points=issue.penalty,
        most_points=meaning.most_points,
        cured_by=CURES.get(issue.code),
    )


def gains(health: HealthReport, recommendation: Recommendation | None) -> tuple[Gain, ...]:
    """In the order in which the actions run."""
    return tuple(_gain(health, item) for item in recommendation.actions) if recommendation else ()


def _gain(health: HealthReport, recommended: RecommendedAction) -> Gain:
    points = sum(issue.penalty for issue in health.issues if CURES.get(issue.code) is recommended.kind)
    return Gain(
        action=recommended.kind,
        reason=recommended.reason,
        points=round(points, 1),
        effect=recommended.effect,
        cost=recommended.cost,
        conflict_probability=recommended.conflict_probability,
    )


def expected_score(health: HealthReport, recommendation: Recommendation | None) -> int:
    """Once all of it has run, if it does what is expected of it."""
    won = sum(gain.points for gain in gains(health, recommendation))
    return max(health.score, round(min(100 - sum(issue.penalty for issue in health.issues) + won, 100)))
