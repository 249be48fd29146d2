"""The page's files: what is vendored says so, what is preloaded is there, and markup keeps to the policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from icepack.api.app import FastAPI
from icepack.api.static_files import STATIC, serve_page

FILES = sorted(path.relative_to(STATIC) for path in STATIC.rglob("*") if path.is_file())
OWN = [path for path in FILES if path.parts[0] != "vendor"]
ELSEWHERE = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)
NAMESPACES = {"http://www.w3.org"}


def text(path: Path) -> str:
    return (STATIC / path).read_text()


@pytest.fixture
def client() -> TestClient:
    api = FastAPI()
    serve_page(api)
    return TestClient(api)


def imported(path: Path) -> set[Path]:
    found = re.findall(r'(?:from|import) "(\.[^"]+)"', text(path))
    return {((STATIC / path).parent / name).resolve().relative_to(STATIC) for name in found}


def needed(path: Path) -> set[Path]:
    """The module and all that it needs at once."""
    found, left = set(), [path]
    while left:
        here = left.pop()
        if here not in found:
            found.add(here)
            left += imported(here)
    return found


def test_every_import_leads_to_a_file() -> None:
    for path in (path for path in OWN if path.suffix == ".js"):
        assert imported(path) <= set(FILES), path


def test_what_the_start_needs_is_preloaded() -> None:
    named = {Path(name) for name in re.findall(r'modulepreload" href="page/([^"]+)"', text(Path("index.html")))}
    assert named == needed(Path("app.js")) - {Path("app.js")}


def test_every_screen_has_its_files() -> None:
    names = re.findall(r'name: "(\w+)"', text(Path("screens.js")))
    assert names
    for name in [*names, "signin", "missing"]:
        assert {Path("views", f"{name}.js"), Path("views", f"{name}.html")} <= set(FILES)
        assert f'x-data="{name}"' in text(Path("views", f"{name}.html"))


@pytest.mark.parametrize("path", OWN, ids=str)
def test_no_file_names_another_place(path: Path) -> None:
    assert set(ELSEWHERE.findall(text(path))) <= NAMESPACES


@pytest.mark.parametrize("path", [path for path in OWN if path.suffix == ".html"], ids=str)
def test_markup_has_nothing_inline(path: Path) -> None:
    assert not re.search(r"""\s(style|on\w+)=["']""", text(path))
    assert not re.search(r"<script(?! [^>]*src=)", text(path))


def test_only_one_place_makes_markup_of_text() -> None:
    makers = [path for path in OWN if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|x-html", text(path))]
    assert makers == [Path("lib/dom.js")]


def test_what_others_made_has_its_version_and_licence() -> None:
    vendored = [path for path in FILES if path.parts[0] == "vendor" and path.suffix == ".js"]
    assert vendored
    for path in vendored:
        name, version = re.fullmatch(r"(.+)-(\d+\.\d+\.\d+)\..*js", path.name).groups()  # type: ignore[union-attr]
        assert Path("vendor", f"{name}-{version}.LICENSE.txt") in FILES


def test_files_are_looked_at_again_and_vendored_ones_are_not(client: TestClient) -> None:
    assert client.get("/").headers["cache-control"] == "no-cache"
    assert client.get("/page/app.js").headers["cache-control"] == "no-cache"
    vendored = next(path for path in FILES if path.parts[0] == "vendor")
    assert "immutable" in client.get(f"/page/{vendored}").headers["cache-control"]


def test_nothing_but_the_page_is_served(client: TestClient) -> None:
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/page/%2e%2e/app.py").status_code == 404
    assert client.get("/tables").status_code == 404
