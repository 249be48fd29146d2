"""Schema of error responses: RFC 9457 problem details."""

from __future__ import annotations

from icepack.api.schemas.base import ResponseModel
from icepack.domain.plan.cost import CostEstimate


class FieldError(ResponseModel):
    field: str
    message: str


class Problem(ResponseModel):
    """An error, as RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    # The first invalid field.
    field: str | None = None
    errors: list[FieldError] | None = None
    estimate: CostEstimate | None = None
