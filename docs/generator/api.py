"""Generates docs/reference/api.md: every operation with its role, parameters and responses, from OpenAPI."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from generator.markdown import anchor, code, fence, section, table
from generator.markdown import page as markdown_page
from generator.words import words
from icepack.api.app import BASE_PATH, build_api
from icepack.api.errors import (
    HTTP_PROBLEM_TYPES,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PROBLEM_TYPES,
    TYPE_PREFIX,
    ProblemType,
)
from icepack.config import load_config
from icepack.domain.access import Role
from icepack.wiring import build_app

_NOWHERE = Path("/nonexistent")
ANONYMOUS = "anonymous"
# Operations that concern all tables.
_EVERYWHERE = (
    *("GET /metrics", "PUT /policies", "PUT /schedules", "POST /settings/checks"),
    *("GET /keys", "POST /keys", "DELETE /keys/{key_id}"),
)


@cache
def document() -> dict[str, Any]:
    app = build_app(load_config(environ={"HOME": str(_NOWHERE)}, cwd=_NOWHERE), environ={})
    return build_api(app).openapi()


@cache
def operations() -> dict[str, dict[str, Any]]:
    """Every operation, by method and path below the base path."""
    return {
        f"{method.upper()} {path.removeprefix(BASE_PATH)}": operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def allowed(name: str, caller: str) -> bool:
    needed = operations()[name]["x-icepack-role"]
    if needed == "anybody":
        return True
    return caller != ANONYMOUS and Role(caller).covers(Role(needed))


def page() -> str:
    found = operations()
    return markdown_page(
        "API",
        words("pages", "api"),
        section("Permissions", words("pages", "matrix"), _matrix()),
        section("Problems", words("pages", "problems"), _problems()),
        *(_operation(name, operation) for name, operation in found.items()),
    )


def _matrix() -> str:
    callers = (ANONYMOUS, *Role)
    rows = [
        (f"[{code(name)}]({anchor(name)})", *("✓" if allowed(name, caller) else "" for caller in callers), _note(name))
        for name in operations()
    ]
    return table(("operation", *callers, ""), rows)


def _note(name: str) -> str:
    return "requires a key for all catalogs" if name in _EVERYWHERE else ""


def _problems() -> str:
    kinds = {*PROBLEM_TYPES.values(), *HTTP_PROBLEM_TYPES.values(), INVALID_REQUEST, INTERNAL_ERROR}
    ordered: list[ProblemType] = sorted(kinds, key=lambda kind: kind.slug)
    rows = [(code(TYPE_PREFIX + kind.slug), str(kind.status), kind.title) for kind in ordered]
    return table(("type", "status", "description"), rows)


def _operation(name: str, operation: dict[str, Any]) -> str:
    blocks = [f"{operation['summary']}. {operation['description']}", _parameters(operation)]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        example = next(iter(body["examples"].values()))["value"]
        blocks += ["Request:", fence(_json(example), "json")]
    status, good = next((code_, it) for code_, it in operation["responses"].items() if code_.startswith("2"))
    media_type, content = next(iter(good.get("content", {}).items()), ("", {}))
    if content.get("example"):
        example = content["example"]
        shown = _json(example) if media_type == "application/json" else str(example)
        blocks += [f"Response ({status}):", fence(shown, "json" if media_type == "application/json" else "")]
    return section(name, *blocks)


def _parameters(operation: dict[str, Any]) -> str:
    rows = [(code(item["name"]), item["in"], item.get("description", "")) for item in operation.get("parameters", [])]
    return table(("parameter", "in", "description"), rows) if rows else ""


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
