"""Links work, required content is present, and no page contains paths of the machine it was written on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from icepack.demo.tables import TABLES

from .pages import PAGES, ROOT, anchors, links, name_of, text

LOCAL_PATH = re.compile(rf"{re.escape(str(ROOT.parent))}/|/(?:root|tmp|home|Users)/|localhost|127\.0\.0\.1:\d")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    broken = [link for link in links(page) if not link.startswith("https://") and not _resolves(page, link)]
    assert broken == []


def _resolves(page: Path, link: str) -> bool:
    path, _, fragment = link.partition("#")
    target = page.parent / path if path else page
    return target.is_file() and (not fragment or fragment in anchors(target))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_contains_local_paths(page: Path) -> None:
    assert LOCAL_PATH.findall(page.read_text(encoding="utf-8")) == []


def test_every_page_is_linked_from_readme() -> None:
    seen = {ROOT / "README.md"}
    ahead = list(seen)
    while ahead:
        page = ahead.pop()
        found = {(page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link}
        new = {target for target in found if target.suffix == ".md"} - seen
        seen |= new
        ahead += new
    assert set(PAGES) - seen == {ROOT / "docs/README.md"}


def test_every_decision_is_listed() -> None:
    listed = links(ROOT / "docs/decisions/README.md")
    assert sorted(listed) == [page.name for page in sorted(ROOT.glob("docs/decisions/0*.md"))]


@pytest.mark.parametrize("heading", ["Context", "Decision", "Consequence"])
def test_every_decision_has_three_sections(heading: str) -> None:
    pages = ROOT.glob("docs/decisions/0*.md")
    assert [page.name for page in pages if f"\n## {heading}\n" not in page.read_text(encoding="utf-8")] == []


def test_every_dependency_has_a_reason() -> None:
    file = tomllib.loads(text("pyproject.toml"))
    extras = [line for extra in file["project"]["optional-dependencies"].values() for line in extra]
    declared = [*file["project"]["dependencies"], *extras, *file["dependency-groups"]["dev"]]
    names = {re.split(r"[\[<>=~!; ]", line)[0] for line in declared} - {"icepack"}
    explained = set(re.findall(r"^\| `([\w-]+)` \|", text("docs/decisions/0009-dependencies.md"), re.MULTILINE))
    assert explained == names


def test_contributing_documents_every_make_target() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"^\| `make ([a-z-]+)` \|", text("CONTRIBUTING.md"), re.MULTILINE)) == targets


def test_readme_lists_every_module_and_folder() -> None:
    source = ROOT / "src/icepack"
    parts = {f"{path.name}/" for path in source.iterdir() if (path / "__init__.py").is_file()}
    parts |= {path.name for path in source.glob("*.py") if path.name != "__init__.py"}
    assert {part for part in parts if f"\n  {part} " not in text("README.md")} == set()


def test_quickstart_lists_every_demo_table() -> None:
    assert [table.name for table in TABLES if f"| `{table.name}` |" not in text("docs/quickstart.md")] == []


def test_changelog_has_current_version() -> None:
    version = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert f"## [{version}]" in text("CHANGELOG.md")


def test_licence_matches_package_metadata() -> None:
    assert tomllib.loads(text("pyproject.toml"))["project"]["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in text("LICENSE")
