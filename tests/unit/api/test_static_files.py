"""The page's static files: imports, preloads, vendored files, and the rules of the content security policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from icepack.api.app import FastAPI
from icepack.api.static_files import STATIC_FOLDER, serve_page

FILES = sorted(path.relative_to(STATIC_FOLDER) for path in STATIC_FOLDER.rglob("*") if path.is_file())
OWN_FILES = [path for path in FILES if path.parts[0] != "vendor"]
EXTERNAL_URL = re.compile(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", re.IGNORECASE)
NAMESPACES = {"http://www.w3.org"}


def read_text(path: Path) -> str:
    return (STATIC_FOLDER / path).read_text()


@pytest.fixture
def client() -> TestClient:
    api = FastAPI()
    serve_page(api)
    return TestClient(api)


def find_imports(path: Path) -> set[Path]:
    found = re.findall(r'(?:from|import) "(\.[^"]+)"', read_text(path))
    return {((STATIC_FOLDER / path).parent / name).resolve().relative_to(STATIC_FOLDER) for name in found}


def find_dependencies(path: Path) -> set[Path]:
    """Returns the module and everything that it imports statically."""
    found, left = set(), [path]
    while left:
        here = left.pop()
        if here not in found:
            found.add(here)
            left += find_imports(here)
    return found


def test_every_import_exists() -> None:
    for path in (path for path in OWN_FILES if path.suffix == ".js"):
        assert find_imports(path) <= set(FILES), path


def test_modules_of_the_start_page_are_preloaded() -> None:
    preloaded = {
        Path(name) for name in re.findall(r'modulepreload" href="page/([^"]+)"', read_text(Path("index.html")))
    }
    assert preloaded == find_dependencies(Path("app.js")) - {Path("app.js")}


def test_every_screen_has_its_files() -> None:
    names = re.findall(r'name: "(\w+)"', read_text(Path("screens.js")))
    assert names
    for name in [*names, "signin", "missing"]:
        assert {Path("views", f"{name}.js"), Path("views", f"{name}.html")} <= set(FILES)
        assert f'x-data="{name}"' in read_text(Path("views", f"{name}.html"))


@pytest.mark.parametrize("path", OWN_FILES, ids=str)
def test_no_file_refers_to_another_site(path: Path) -> None:
    assert set(EXTERNAL_URL.findall(read_text(path))) <= NAMESPACES


@pytest.mark.parametrize("path", [path for path in OWN_FILES if path.suffix == ".html"], ids=str)
def test_markup_has_no_inline_styles_or_scripts(path: Path) -> None:
    assert not re.search(r"""\s(style|on\w+)=["']""", read_text(path))
    assert not re.search(r"<script(?! [^>]*src=)", read_text(path))


def test_only_one_module_turns_text_into_markup() -> None:
    modules = [
        path for path in OWN_FILES if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|x-html", read_text(path))
    ]
    assert modules == [Path("lib/dom.js")]


def test_vendored_files_have_version_and_licence() -> None:
    vendored = [path for path in FILES if path.parts[0] == "vendor" and path.suffix == ".js"]
    assert vendored
    for path in vendored:
        name, version = re.fullmatch(r"(.+)-(\d+\.\d+\.\d+)\..*js", path.name).groups()  # type: ignore[union-attr]
        assert Path("vendor", f"{name}-{version}.LICENSE.txt") in FILES


def test_own_files_are_revalidated_and_vendored_ones_cached(client: TestClient) -> None:
    assert client.get("/").headers["cache-control"] == "no-cache"
    assert client.get("/page/app.js").headers["cache-control"] == "no-cache"
    vendored = next(path for path in FILES if path.parts[0] == "vendor")
    assert "immutable" in client.get(f"/page/{vendored}").headers["cache-control"]


def test_only_the_page_is_served(client: TestClient) -> None:
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/page/%2e%2e/app.py").status_code == 404
    assert client.get("/tables").status_code == 404
