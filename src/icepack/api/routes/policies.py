"""Policies: read, replace and preview."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from icepack.api.dependencies import Admin, Limit, Viewer, example_body
from icepack.api.presenters.policies import present_policy_preview
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.policies import PoliciesView, PolicyPreviewView, PutPolicies
from icepack.domain.access import Role

router = Router("policies")


@router.get("/policies", PoliciesView, RESPONSES["policies"], role=Role.VIEWER, summary="Policies by layer")
def get_policies(caller: Viewer) -> Response:
    """Returns the policies of the configuration and the overrides that were set through the API."""
    return json_response(caller.services.policies.read(caller.visible_scopes))


@router.put("/policies", PoliciesView, RESPONSES["policies"], role=Role.ADMIN, summary="Replace the policy overrides")
def put_policies(caller: Admin, body: Annotated[PutPolicies, example_body("policies")]) -> Response:
    """Replaces all policy overrides; takes effect within seconds. Requires an admin of every catalog."""
    caller.require_role_everywhere(Role.ADMIN, "policies")
    policies = caller.services.policies
    before = policies.read(caller.visible_scopes)["overrides"]
    stored = policies.replace(body, caller.name)
    outcome = f"version {stored.version}"
    caller.record_audit("policies.put", "policies", outcome, before=before, after=list(stored.entries))
    policies.clear_cache()
    caller.services.schedules.clear_cache()
    return json_response(policies.read(caller.visible_scopes))


@router.post(
    "/policies/preview",
    PolicyPreviewView,
    RESPONSES["policy_preview"],
    role=Role.ADMIN,
    summary="Preview policy overrides",
)
def preview_policies(
    caller: Admin, body: Annotated[PutPolicies, example_body("policies")], limit: Limit = 50
) -> Response:
    """Takes the body of `PUT /policies`, saves nothing, and returns the visible tables that would change."""
    preview = caller.services.previews.preview_policies(body, caller.visible_scopes, limit)
    return json_response(present_policy_preview(preview))
