"""Errors as RFC 9457 problem documents: a stable type, one plain sentence, the offending field."""

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

from icepack.api.overrides.validation import BadOverride
from icepack.api.refusals import Forbidden, NotAllowed, TooManyRequests, Unauthenticated
from icepack.domain.job import IdempotencyKeyReused, JobNotFound, JobStateConflict
from icepack.domain.ports.access import KeyExists, KeyNotFound, VersionConflict
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
from icepack.service.submission import CostLimitExceeded

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:icepack:problem:"


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of problem."""

    slug: str
    status: int
    title: str
    field: str | None = None


INVALID = Kind("invalid-request", 422, "The request does not fit its shape.")
BROKEN = Kind("internal-error", 500, "Something went wrong here.")
KINDS: dict[type[IcepackError], Kind] = {
    Unauthenticated: Kind("unauthenticated", 401, "Nobody is signed in."),
    Forbidden: Kind("forbidden", 403, "The role is not enough."),
    TooManyRequests: Kind("too-many-requests", 429, "Too many requests."),
    InvalidTableName: Kind("invalid-table-name", 422, "The table's name cannot be read.", "table"),
    TableNotFound: Kind("table-not-found", 404, "There is no such table.", "table"),
    AmbiguousTable: Kind("ambiguous-table", 409, "Several tables have the name.", "table"),
    InvalidFilter: Kind("invalid-filter", 422, "The partition filter cannot be read.", "options.partition_filter"),
    InvalidOption: Kind("invalid-option", 422, "An option does not fit.", "options"),
    JobNotFound: Kind("job-not-found", 404, "There is no such job.", "job_id"),
    KeyNotFound: Kind("key-not-found", 404, "There is no such key.", "key_id"),
    KeyExists: Kind("key-exists", 409, "There is such a key already.", "name"),
    JobStateConflict: Kind("job-state", 409, "The job's state allows no such move."),
    IdempotencyKeyReused: Kind("idempotency-key-reused", 422, "The key was another request's.", "Idempotency-Key"),
    CostLimitExceeded: Kind("cost-limit", 422, "The estimate is over the limit.", "options.max_cost"),
    VersionConflict: Kind("version-conflict", 409, "It was changed meanwhile.", "version"),
    ConfigError: Kind("invalid-setting", 422, "A setting does not fit.", "overrides"),
    EnvironmentFault: Kind("unavailable", 503, "A part that is needed does not answer."),
    CatalogFault: Kind("catalog-unavailable", 503, "A catalog does not answer."),
    TableUnreadable: Kind("table-unreadable", 409, "The table's metadata cannot be read."),
    Refused: Kind("refused", 409, "A guard rail said no."),
}
HTTP_KINDS = {
    400: Kind("bad-request", 400, "The request cannot be read."),
    403: Kind("cross-site", 403, "The request comes from another site."),
    404: Kind("not-found", 404, "There is no such place."),
    405: Kind("method-not-allowed", 405, "The place knows no such method."),
    413: Kind("too-large", 413, "The body is too large."),
    415: Kind("media-type", 415, "The body is not JSON."),
}
_SENTENCES = {
    400: "The body is not JSON that can be read.",
    404: "There is nothing at this address.",
    405: "This address does not know the method.",
}


def problem(kind: Kind, detail: str, instance: str | None = None, **more: Any) -> dict[str, Any]:
    facts = {"field": kind.field, **more}
    document = {"type": PREFIX + kind.slug, "title": kind.title, "status": kind.status, "detail": detail}
    return document | {"instance": instance} | {name: value for name, value in facts.items() if value is not None}


def kind_of(exc: IcepackError) -> Kind:
    if isinstance(exc, NotAllowed):
        return Kind(exc.slug, exc.status, HTTP_KINDS.get(exc.status, HTTP_KINDS[400]).title)
    return next((KINDS[kind] for kind in type(exc).__mro__ if kind in KINDS), BROKEN)


def encode(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(body, document["status"], headers=dict(headers or {}), media_type=MEDIA_TYPE)


def from_error(exc: IcepackError, path: str) -> Response:
    kind = kind_of(exc)
    if kind.status >= 500:
        log.error("%s: %s", path, redact(str(exc)))
    # What a server is called, and why it does not answer, is for the log.
    detail = str(exc) if kind.status < 500 else f"{kind.title} The log of the service says more."
    return encode(problem(kind, detail, path, **_facts(exc)), _headers(exc))


def _facts(exc: IcepackError) -> dict[str, Any]:
    if isinstance(exc, BadOverride):
        return {"field": exc.mistakes[0]["field"], "errors": exc.mistakes}
    return {"estimate": to_json(exc.estimate)} if isinstance(exc, CostLimitExceeded) else {}


def _headers(exc: IcepackError) -> dict[str, str]:
    if isinstance(exc, Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": f"{max(exc.wait_seconds, 1):.0f}"} if isinstance(exc, TooManyRequests) else {}


def from_mistakes(mistakes: list[dict[str, str]], path: str) -> Response:
    first = mistakes[0]
    sentence = f"{first['field']}: {first['message']}."
    return encode(problem(INVALID, sentence, path, field=first["field"], errors=mistakes))


def mistakes_of(errors: Any) -> list[dict[str, str]]:
    """Each offending field and what is wrong with it; what was sent is not repeated."""
    return [{"field": _field(error["loc"]), "message": str(error["msg"]).rstrip(".")} for error in errors][:50]


def _field(place: tuple[Any, ...]) -> str:
    parts = [str(part) for part in place if part != "body"] or ["body"]
    if parts[0] in ("query", "path", "header", "cookie"):
        parts = parts[1:] or parts
    return ".".join(parts).encode("ascii", "backslashreplace").decode()


def register(app: FastAPI) -> None:
    app.add_exception_handler(IcepackError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(ValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_surprise)


async def _on_error(request: Request, exc: Any) -> Response:
    return from_error(exc, request.url.path)


async def _on_invalid(request: Request, exc: Any) -> Response:
    errors = exc.errors()
    if any(error["type"] == "json_invalid" for error in errors):
        return encode(problem(HTTP_KINDS[400], _SENTENCES[400], request.url.path))
    return from_mistakes(mistakes_of(errors), request.url.path)


async def _on_http(request: Request, exc: Any) -> Response:
    kind = HTTP_KINDS.get(exc.status_code) or Kind("http", exc.status_code, HTTPStatus(exc.status_code).phrase)
    detail = _SENTENCES.get(exc.status_code) or str(exc.detail)
    return encode(problem(kind, detail, request.url.path), exc.headers)


async def _on_surprise(request: Request, exc: Exception) -> Response:
    log.error("%s: unexpected %s", request.url.path, type(exc).__name__, exc_info=exc)
    return encode(problem(BROKEN, "This was not foreseen; the log of the service says more.", request.url.path))
