"""The page: files that go out as they lie here, under the same rules as every other answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
LOOK_AGAIN = "no-cache"
"""A browser keeps them, but asks whether they are still the same: an upgrade shows at once."""
FOREVER = "public, max-age=31536000, immutable"
"""What others made has its version in its name."""


class PageFiles(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["Cache-Control"] = FOREVER if path.startswith("vendor/") else LOOK_AGAIN
        return answer


def serve_page(api: FastAPI) -> None:
    """Its one document lies at the root; what is shown is behind the `#`, so no other address needs an answer."""

    async def index(request: Request) -> Any:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": LOOK_AGAIN})

    api.add_route("/", index, include_in_schema=False)
    api.mount("/page", PageFiles(directory=STATIC), name="page")
