"""Errors of the API, and how every error becomes an RFC 9457 problem document.

A problem has a stable type, a title, one sentence of detail, and the invalid field where there is one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from icepack.api.overrides.validation import InvalidOverride
from icepack.domain.access import Role
from icepack.domain.job import IdempotencyKeyReused, JobNotFound, JobStateConflict
from icepack.domain.ports.access import KeyExists, KeyNotFound
from icepack.domain.ports.overrides import VersionConflict
from icepack.domain.serialization import to_json
from icepack.errors import (
    AmbiguousTable,
    CatalogFault,
    ConfigError,
    EnvironmentFault,
    IcepackError,
    InvalidFilter,
    InvalidOption,
    InvalidTableName,
    Refused,
    TableNotFound,
    TableUnreadable,
    redact,
)
from icepack.service.runs.cost_limit import CostLimitExceeded

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:icepack:problem:"
MAX_FIELD_ERRORS = 50


class Unauthenticated(Refused):
    def __init__(self, message: str = "Authentication is required.") -> None:
        super().__init__(message, "Send an API key or an OIDC token as `Authorization: Bearer …`, or sign in.")


class Forbidden(Refused):
    def __init__(self, role: Role, where: str = "") -> None:
        super().__init__(f"This requires the role {role.value}{f' for {where}' if where else ''}.")
        self.role = role


class TooManyRequests(Refused):
    def __init__(self, wait_seconds: float) -> None:
        super().__init__("Too many requests.", f"Try again in {max(wait_seconds, 1):.0f} seconds.")
        self.wait_seconds = wait_seconds


class RequestRejected(Refused):
    """A request that is rejected for its form, regardless of the caller: a foreign host, another site, no JSON."""

    def __init__(self, status: int, slug: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.slug = slug


class InvalidParameter(InvalidOption):
    """An invalid parameter of a request; `field` names it."""

    def __init__(self, field: str, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.field = field


@dataclass(frozen=True, slots=True)
class ProblemType:
    slug: str
    status: int
    title: str
    field: str | None = None


INVALID_REQUEST = ProblemType("invalid-request", 422, "The request is invalid.")
INTERNAL_ERROR = ProblemType("internal-error", 500, "Internal server error.")
PROBLEM_TYPES: dict[type[IcepackError], ProblemType] = {
    Unauthenticated: ProblemType("unauthenticated", 401, "Authentication is required."),
    Forbidden: ProblemType("forbidden", 403, "The role is insufficient."),
    TooManyRequests: ProblemType("too-many-requests", 429, "Too many requests."),
    InvalidTableName: ProblemType("invalid-table-name", 422, "The table name is invalid.", "table"),
    TableNotFound: ProblemType("table-not-found", 404, "The table does not exist.", "table"),
    AmbiguousTable: ProblemType("ambiguous-table", 409, "The table name is ambiguous.", "table"),
    InvalidFilter: ProblemType("invalid-filter", 422, "The partition filter is invalid.", "options.partition_filter"),
    InvalidOption: ProblemType("invalid-option", 422, "An option is invalid.", "options"),
    JobNotFound: ProblemType("job-not-found", 404, "The job does not exist.", "job_id"),
    KeyNotFound: ProblemType("key-not-found", 404, "The key does not exist.", "key_id"),
    KeyExists: ProblemType("key-exists", 409, "A valid key with this name exists.", "name"),
    JobStateConflict: ProblemType("job-state", 409, "The state of the job does not allow this."),
    IdempotencyKeyReused: ProblemType(
        "idempotency-key-reused", 422, "The idempotency key was used for another request.", "Idempotency-Key"
    ),
    CostLimitExceeded: ProblemType("cost-limit", 422, "The estimated cost exceeds the limit.", "options.max_cost"),
    VersionConflict: ProblemType("version-conflict", 409, "The version is not the current one.", "version"),
    ConfigError: ProblemType("invalid-setting", 422, "A setting is invalid.", "overrides"),
    EnvironmentFault: ProblemType("unavailable", 503, "A required service is unavailable."),
    CatalogFault: ProblemType("catalog-unavailable", 503, "A catalog is unavailable."),
    TableUnreadable: ProblemType("table-unreadable", 409, "The metadata of the table cannot be read."),
    Refused: ProblemType("refused", 409, "A safety check refused the request."),
}
HTTP_PROBLEM_TYPES = {
    400: ProblemType("bad-request", 400, "The request cannot be parsed."),
    403: ProblemType("cross-site", 403, "The request comes from another site."),
    404: ProblemType("not-found", 404, "The URL does not exist."),
    405: ProblemType("method-not-allowed", 405, "The method is not allowed."),
    413: ProblemType("too-large", 413, "The request body is too large."),
    415: ProblemType("media-type", 415, "The request body is not JSON."),
}
_HTTP_DETAILS = {
    400: "The request body is not valid JSON.",
    404: "Nothing exists at this URL.",
    405: "This URL does not support the method.",
}


def build_problem(kind: ProblemType, detail: str, instance: str | None = None, **members: Any) -> dict[str, Any]:
    optional = {"field": kind.field, **members}
    document = {"type": TYPE_PREFIX + kind.slug, "title": kind.title, "status": kind.status, "detail": detail}
    return document | {"instance": instance} | {name: value for name, value in optional.items() if value is not None}


def find_problem_type(exc: IcepackError) -> ProblemType:
    if isinstance(exc, RequestRejected):
        return ProblemType(exc.slug, exc.status, HTTP_PROBLEM_TYPES.get(exc.status, HTTP_PROBLEM_TYPES[400]).title)
    return next((PROBLEM_TYPES[kind] for kind in type(exc).__mro__ if kind in PROBLEM_TYPES), INTERNAL_ERROR)


def render_problem(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    # Escaped to ASCII: messages may quote input that is not valid Unicode.
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(body, document["status"], headers=dict(headers or {}), media_type=MEDIA_TYPE)


def render_error(exc: IcepackError, path: str) -> Response:
    kind = find_problem_type(exc)
    if kind.status >= 500:
        log.error("%s: %s", path, redact(str(exc)))
    # Server names and reasons of outages go to the log only.
    detail = str(exc) if kind.status < 500 else f"{kind.title} See the log of the service."
    return render_problem(build_problem(kind, detail, path, **_extra_members(exc)), _extra_headers(exc))


def _extra_members(exc: IcepackError) -> dict[str, Any]:
    if isinstance(exc, InvalidOverride):
        return {"field": exc.errors[0]["field"], "errors": exc.errors}
    if isinstance(exc, InvalidParameter):
        return {"field": exc.field}
    return {"estimate": to_json(exc.estimate)} if isinstance(exc, CostLimitExceeded) else {}


def _extra_headers(exc: IcepackError) -> dict[str, str]:
    if isinstance(exc, Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": f"{max(exc.wait_seconds, 1):.0f}"} if isinstance(exc, TooManyRequests) else {}


def render_field_errors(errors: list[dict[str, str]], path: str) -> Response:
    first = errors[0]
    detail = f"{first['field']}: {first['message']}."
    return render_problem(build_problem(INVALID_REQUEST, detail, path, field=first["field"], errors=errors))


def list_field_errors(errors: Any) -> list[dict[str, str]]:
    """Returns each invalid field with its message, without the submitted values."""
    found = [{"field": _join_field(error["loc"]), "message": str(error["msg"]).rstrip(".")} for error in errors]
    return found[:MAX_FIELD_ERRORS]


def _join_field(location: tuple[Any, ...]) -> str:
    parts = [str(part) for part in location if part != "body"] or ["body"]
    if parts[0] in ("query", "path", "header", "cookie"):
        parts = parts[1:] or parts
    return ".".join(parts).encode("ascii", "backslashreplace").decode()


def register_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(IcepackError, _handle_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(ValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(Exception, _handle_unexpected)


async def _handle_error(request: Request, exc: Any) -> Response:
    return render_error(exc, request.url.path)


async def _handle_validation_error(request: Request, exc: Any) -> Response:
    errors = exc.errors()
    if any(error["type"] == "json_invalid" for error in errors):
        return render_problem(build_problem(HTTP_PROBLEM_TYPES[400], _HTTP_DETAILS[400], request.url.path))
    return render_field_errors(list_field_errors(errors), request.url.path)


async def _handle_http_exception(request: Request, exc: Any) -> Response:
    status = exc.status_code
    kind = HTTP_PROBLEM_TYPES.get(status) or ProblemType("http", status, HTTPStatus(status).phrase)
    detail = _HTTP_DETAILS.get(status) or str(exc.detail)
    return render_problem(build_problem(kind, detail, request.url.path), exc.headers)


async def _handle_unexpected(request: Request, exc: Exception) -> Response:
    log.error("%s: unexpected %s", request.url.path, type(exc).__name__, exc_info=exc)
    detail = "An unexpected error occurred. See the log of the service."
    return render_problem(build_problem(INTERNAL_ERROR, detail, request.url.path))
