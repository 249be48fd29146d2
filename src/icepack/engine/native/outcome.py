"""The outcome of a native compaction for each file group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.verification import Mismatch, NativeFailure
from icepack.engine.native.tasks import RewriteGroup

# The maximum number of groups that a run record lists; a table may have many thousands.
MAX_REPORTED = 100


@dataclass(slots=True)
class CompactionOutcome:
    """What happened to each group, by group number."""

    native: dict[int, RewriteGroup] = field(default_factory=dict)
    # Groups that Spark's procedure has to rewrite, with the reason.
    fallbacks: dict[int, str] = field(default_factory=dict)
    # Groups that another writer changed before they could be committed.
    invalidated: set[int] = field(default_factory=set)
    # How many bytes of the outputs were copied without being decoded.
    copied_bytes: int = 0
    # Groups with a page whose checksum is wrong. They are not rewritten, because Spark may not notice the damage.
    damaged: dict[int, str] = field(default_factory=dict)
    # Groups whose native rewrite failed unexpectedly; they are also among the fallbacks.
    failures: list[NativeFailure] = field(default_factory=list)
    mismatch: Mismatch | None = None


def build_details(outcome: CompactionOutcome, plan: CompactionPlan) -> dict[str, Any]:
    """The details for the run record: which engine rewrote each group, and why."""
    groups = [
        {"partition": group.partition.path, "files": group.files, **_describe_group(outcome, number)}
        for number, group in enumerate(plan.groups)
    ]
    return {
        "native_groups": len(outcome.native),
        "spark_groups": len(outcome.fallbacks),
        "copied_bytes": outcome.copied_bytes,
        "groups": groups[:MAX_REPORTED],
        **({"failures": list(outcome.damaged.values())[:MAX_REPORTED]} if outcome.damaged else {}),
    }


def _describe_group(outcome: CompactionOutcome, number: int) -> dict[str, str]:
    if number in outcome.native:
        return {"engine": "native"}
    if number in outcome.damaged:
        return {"engine": "none", "why": outcome.damaged[number]}
    if number in outcome.fallbacks:
        return {"engine": "spark", "why": outcome.fallbacks[number]}
    return {"engine": "none", "why": "another writer changed its files; planned again"}
