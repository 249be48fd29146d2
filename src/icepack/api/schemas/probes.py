"""Schemas of the health probes."""

from __future__ import annotations

from typing import Literal

from icepack.api.schemas.base import ResponseModel


class Liveness(ResponseModel):
    status: Literal["ok"]
    version: str


class ComponentStatus(ResponseModel):
    name: str
    status: Literal["ok", "degraded", "down"]
    detail: str


class Readiness(ResponseModel):
    status: Literal["ready", "degraded", "unavailable"]
    components: list[ComponentStatus]
