"""Serves the web page's static files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC_FOLDER = Path(__file__).parent / "static"
# Browsers revalidate the page's own files, so that an upgrade shows immediately.
REVALIDATE = "no-cache"
# Vendored files have their version in their name, so they never change.
IMMUTABLE = "public, max-age=31536000, immutable"


class PageFiles(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = IMMUTABLE if path.startswith("vendor/") else REVALIDATE
        return response


def serve_page(api: FastAPI) -> None:
    """Serves the one document at the root; the page routes by URL fragment, so it needs no other address."""

    async def index(request: Request) -> Any:
        return FileResponse(STATIC_FOLDER / "index.html", headers={"Cache-Control": REVALIDATE})

    api.add_route("/", index, include_in_schema=False)
    api.mount("/page", PageFiles(directory=STATIC_FOLDER), name="page")
