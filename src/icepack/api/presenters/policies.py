"""Presents previews of policies as JSON."""

from __future__ import annotations

from typing import Any

from icepack.api.overrides.previews import PolicyChange, PolicyPreview
from icepack.domain.actions import Action
from icepack.domain.recommendation import Recommendation


def present_policy_preview(preview: PolicyPreview) -> dict[str, Any]:
    changes = [_present_change(change) for change in preview.changes]
    recommendations = sum(change["recommendation_changes"] for change in changes)
    return {"tables": preview.tables, "recommendations": recommendations, "changes": changes}


def _present_change(change: PolicyChange) -> dict[str, Any]:
    return {
        "table_name": str(change.table),
        "settings": {name: {"before": old, "after": new} for name, (old, new) in change.settings.items()},
        "actions_before": [item.kind for item in change.before.actions],
        "actions_after": [item.kind for item in change.after.actions],
        "recommendation_changes": _list_actions(change.before) != _list_actions(change.after),
        "before": change.before,
        "after": change.after,
        "estimated": change.estimated,
    }


def _list_actions(recommendation: Recommendation) -> list[Action]:
    return [item.action for item in recommendation.actions]
