"""JSON responses, and the router that declares every route with its role, schema and example."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import orjson
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from icepack.api.errors import MEDIA_TYPE
from icepack.domain.access import Role
from icepack.domain.serialization import to_json

F = TypeVar("F", bound=Callable[..., Any])
NO_CONTENT = 204
SECURITY: list[dict[str, list[str]]] = [{"key": []}, {"session": []}]
PROBLEM_EXAMPLE = {
    "type": "urn:icepack:problem:table-not-found",
    "title": "The table does not exist.",
    "status": 404,
    "detail": "No table matches 'lake.sales.ordres'. Health sync adds new tables the next time it runs.",
    "instance": "/api/v1/tables/lake.sales.ordres",
    "field": "table",
}
_PROBLEM_DESCRIPTIONS = {
    400: "The request cannot be parsed.",
    401: "Authentication is required.",
    403: "The role is insufficient, or the request comes from another site.",
    404: "The table, job, key or URL does not exist.",
    405: "The method is not allowed.",
    409: "The current state does not allow the request.",
    413: "The request body is too large.",
    415: "The request body is not JSON.",
    422: "The request is invalid.",
    429: "Too many requests.",
    503: "A required service is unavailable.",
}
_JSON_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


def json_response(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode_json(document), status, headers=dict(headers or {}), media_type="application/json")


def encode_json(document: Any) -> bytes:
    try:
        return orjson.dumps(document, default=_to_serializable, option=_JSON_OPTIONS)
    except orjson.JSONEncodeError:
        # A table's properties may hold unpaired surrogates or integers over 64 bits, which only `json` encodes.
        return json.dumps(document, default=_to_serializable, separators=(",", ":"), allow_nan=False).encode()


def _to_serializable(value: Any) -> Any:
    """Converts what a JSON library does not know; orjson encodes times, ids and dataclasses itself."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID | date):
        return str(value)
    if is_dataclass(value) or isinstance(value, timedelta):
        return to_json(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    raise TypeError(f"cannot encode {type(value).__name__} as JSON")


class Router:
    """Declares routes; handlers return finished responses, so the schema only documents them."""

    def __init__(self, tag: str) -> None:
        self.api_router = APIRouter(tags=[tag])

    def get(self, path: str, schema: Any, example: Any, *, role: Role | None, **options: Any) -> Callable[[F], F]:
        return self.route("GET", path, schema, example, role=role, **options)

    def post(self, path: str, schema: Any, example: Any, *, role: Role | None, **options: Any) -> Callable[[F], F]:
        return self.route("POST", path, schema, example, role=role, **options)

    def put(self, path: str, schema: Any, example: Any, *, role: Role | None, **options: Any) -> Callable[[F], F]:
        return self.route("PUT", path, schema, example, role=role, **options)

    def delete(self, path: str, schema: Any, example: Any, *, role: Role | None, **options: Any) -> Callable[[F], F]:
        return self.route("DELETE", path, schema, example, role=role, **options)

    def route(
        self,
        method: str,
        path: str,
        schema: Any,
        example: Any,
        *,
        role: Role | None,
        status: int = 200,
        media_type: str = "application/json",
        extra_responses: Mapping[int | str, dict[str, Any]] | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Adds the decorated function as a route; a role of None is open to everybody."""
        openapi_extra: dict[str, Any] = {"x-icepack-role": role.value if role else "anybody"}
        if role is not None:
            openapi_extra["security"] = SECURITY
        success: dict[str, Any] = {"description": "Success."}
        if status != NO_CONTENT:
            success["content"] = {media_type: {"example": example}}

        def add(function: F) -> F:
            self.api_router.add_api_route(
                path,
                function,
                methods=[method],
                response_model=schema,
                response_class=Response if schema is None else JSONResponse,
                status_code=status,
                operation_id=function.__name__,
                responses={status: success, **describe_problems(), **(extra_responses or {})},
                openapi_extra=openapi_extra,
                **options,
            )
            return function

        return add


def describe_problems() -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": PROBLEM_EXAMPLE}}
    return {status: {"description": text, "content": content} for status, text in _PROBLEM_DESCRIPTIONS.items()}
