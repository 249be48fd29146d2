"""How routes are declared and answered: documents go out as they are, their shapes stand in the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeVar
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError
from pydantic_core import to_json as to_json_bytes
from starlette.responses import JSONResponse, Response

from icepack.api.errors import MEDIA_TYPE
from icepack.domain.access import Role
from icepack.domain.serialization import to_json

F = TypeVar("F", bound=Callable[..., Any])
PROBLEM_EXAMPLE = {
    "type": "urn:icepack:problem:table-not-found",
    "title": "There is no such table.",
    "status": 404,
    "detail": "No table matches 'lake.sales.ordres'. Health sync finds new tables at its next round.",
    "instance": "/api/v1/tables/lake.sales.ordres",
    "field": "table",
}
_PROBLEMS = {
    400: "The request cannot be read.",
    401: "Nobody is signed in.",
    403: "The role is not enough, or the request comes from another site.",
    404: "There is no such table, job, key or place.",
    405: "The place knows no such method.",
    409: "The state of things does not allow it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request does not fit its shape.",
    429: "Too many requests.",
    503: "A part that is needed does not answer.",
}
NO_CONTENT = 204
SECURITY: list[dict[str, list[str]]] = [{"key": []}, {"session": []}]


def send(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(document), status, headers=dict(headers or {}), media_type="application/json")


def encoded(document: Any) -> bytes:
    try:
        return to_json_bytes(document, fallback=_plain, inf_nan_mode="null", by_alias=True)
    except (PydanticSerializationError, UnicodeEncodeError):
        # Text that somebody put into a table's properties may be none; escaped, it can still be shown.
        return json.dumps(document, default=_plain, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID | date):
        return str(value)
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")


class Place:
    """Declares the routes of one router."""

    def __init__(self, tag: str) -> None:
        self.router = APIRouter(tags=[tag])

    def get(self, path: str, shape: Any, example: Any, *, role: Role | None, **more: Any) -> Callable[[F], F]:
        return self.route("GET", path, shape, example, role=role, **more)

    def post(self, path: str, shape: Any, example: Any, *, role: Role | None, **more: Any) -> Callable[[F], F]:
        return self.route("POST", path, shape, example, role=role, **more)

    def put(self, path: str, shape: Any, example: Any, *, role: Role | None, **more: Any) -> Callable[[F], F]:
        return self.route("PUT", path, shape, example, role=role, **more)

    def route(
        self,
        method: str,
        path: str,
        shape: Any,
        example: Any,
        *,
        role: Role | None,
        status: int = 200,
        media_type: str = "application/json",
        also: Mapping[int | str, dict[str, Any]] | None = None,
        **more: Any,
    ) -> Callable[[F], F]:
        extra: dict[str, Any] = {"x-icepack-role": role.value if role else "anybody"}
        if role is not None:
            extra["security"] = SECURITY
        good: dict[str, Any] = {"description": "Done."}
        if status != NO_CONTENT:
            good["content"] = {media_type: {"example": example}}

        def declare(function: F) -> F:
            self.router.add_api_route(
                path,
                function,
                methods=[method],
                response_model=shape,
                response_class=Response if shape is None else JSONResponse,
                status_code=status,
                operation_id=function.__name__,
                responses={status: good, **problems(), **(also or {})},
                openapi_extra=extra,
                **more,
            )
            return function

        return declare


def problems() -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": PROBLEM_EXAMPLE}}
    return {status: {"description": said, "content": content} for status, said in _PROBLEMS.items()}
