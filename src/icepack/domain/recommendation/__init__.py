"""Recommendation: turns status, health, policy and history into an ordered list of actions with reasons and costs."""

from icepack.domain.recommendation.compaction import choose_strategy
from icepack.domain.recommendation.recommender import recommend
from icepack.domain.recommendation.types import (
    ExpectedEffect,
    PastRun,
    Recommendation,
    RecommendedAction,
    Situation,
    SkippedAction,
    estimate_conflict_probability,
)

__all__ = [
    "ExpectedEffect",
    "PastRun",
    "Recommendation",
    "RecommendedAction",
    "Situation",
    "SkippedAction",
    "choose_strategy",
    "estimate_conflict_probability",
    "recommend",
]
