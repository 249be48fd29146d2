"""The files that docs/architecture.md and the decisions name exist, and so do the names of the module map."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import PAGES, ROOT, name_of, text

PACKAGE = ROOT / "src" / "icepack"
ARCHITECTURE = "docs/architecture.md"
_PATH = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|java|js|html|css)|[\w-]+\.py)`")
_ROOTS = (ROOT, PACKAGE, PACKAGE / "api" / "static")
# The modules of the specification's module map.
_MODULES = (
    "api cli worker jobs locks table_cache history backend metrics config discovery catalog status health "
    "recommendation inspector maintenance spark service orchestrator health_sync health_sync_job"
)
_SPECIFICATION = "## Where the module map of the specification lives"


def _missing(paths: list[str], roots: tuple[Path, ...]) -> list[str]:
    return sorted({path for path in paths if not any((root / path).is_file() for root in roots)})


def _rows() -> list[list[str]]:
    table = text(ARCHITECTURE).partition(_SPECIFICATION)[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert rows
    return rows


def test_every_file_of_the_architecture_page_exists() -> None:
    flows = text(ARCHITECTURE).partition(_SPECIFICATION)[0]
    paths = _PATH.findall(flows)
    assert len(paths) > 80
    assert _missing(paths, (PACKAGE,)) == []


def test_every_folder_of_the_architecture_page_exists() -> None:
    folders = set(re.findall(r"`([\w/]+)/`", text(ARCHITECTURE)))
    assert [folder for folder in sorted(folders) if not (PACKAGE / folder).is_dir()] == []


def test_the_module_map_names_existing_files() -> None:
    assert _missing([path for row in _rows() for path in _PATH.findall(row[2])], (PACKAGE,)) == []


def test_the_module_map_names_existing_classes_and_functions() -> None:
    for names, _, files in _rows():
        sources = "".join((PACKAGE / path).read_text(encoding="utf-8") for path in _PATH.findall(files))
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(class|def) {name}\b", sources, re.MULTILINE), name


def test_the_module_map_is_complete() -> None:
    named = {name for row in _rows() for name in re.findall(r"`(\w+)\.py`", row[0])}
    assert named == set(_MODULES.split())


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name in ("docs", "decisions")], ids=name_of)
def test_every_source_file_that_a_page_names_exists(page: Path) -> None:
    if name_of(page) != ARCHITECTURE:
        paths = [path for path in _PATH.findall(page.read_text(encoding="utf-8")) if "/" in path and "NAME" not in path]
        assert _missing(paths, _ROOTS) == []
