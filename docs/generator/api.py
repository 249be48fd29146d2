"""docs/reference/api.md: every operation with its role, parameters and answers, from the OpenAPI document."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from generator.markdown import anchor, code, fence, section, table
from generator.markdown import page as markdown_page
from generator.words import words
from icepack.api.app import BASE, build_api
from icepack.api.errors import BROKEN, HTTP_KINDS, INVALID, KINDS, PREFIX, Kind
from icepack.config import load_config
from icepack.domain.access import Role
from icepack.wiring import build_app

_NOWHERE = Path("/nonexistent")
NOBODY = "nobody"
_EVERYWHERE = (
    *("GET /metrics", "PUT /policies", "PUT /schedules", "POST /settings/checks"),
    *("GET /keys", "POST /keys", "DELETE /keys/{key_id}"),
)
"""Those that concern all tables at once."""


@cache
def document() -> dict[str, Any]:
    app = build_app(load_config(environ={"HOME": str(_NOWHERE)}, cwd=_NOWHERE), environ={})
    return build_api(app).openapi()


@cache
def operations() -> dict[str, dict[str, Any]]:
    """By method and path below the base."""
    return {
        f"{method.upper()} {path.removeprefix(BASE)}": operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def allowed(name: str, caller: str) -> bool:
    needed = operations()[name]["x-icepack-role"]
    if needed == "anybody":
        return True
    return caller != NOBODY and Role(caller).covers(Role(needed))


def page() -> str:
    found = operations()
    return markdown_page(
        "API",
        words("pages", "api"),
        section("Who may do what", words("pages", "matrix"), _matrix()),
        section("Problems", words("pages", "problems"), _problems()),
        *(_operation(name, operation) for name, operation in found.items()),
    )


def _matrix() -> str:
    callers = (NOBODY, *Role)
    rows = [
        (f"[{code(name)}]({anchor(name)})", *("✓" if allowed(name, caller) else "" for caller in callers), _note(name))
        for name in operations()
    ]
    return table(("operation", *callers, ""), rows)


def _note(name: str) -> str:
    return "only with a key for every catalog" if name in _EVERYWHERE else ""


def _problems() -> str:
    kinds: list[Kind] = sorted({*KINDS.values(), *HTTP_KINDS.values(), INVALID, BROKEN}, key=lambda kind: kind.slug)
    return table(("type", "status", "what it says"), [(code(PREFIX + k.slug), str(k.status), k.title) for k in kinds])


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
        blocks += [f"Answer ({status}):", fence(shown, "json" if media_type == "application/json" else "")]
    return section(name, *blocks)


def _parameters(operation: dict[str, Any]) -> str:
    rows = [(code(item["name"]), item["in"], item.get("description", "")) for item in operation.get("parameters", [])]
    return table(("parameter", "in", "what it is"), rows) if rows else ""


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
