"""Generates the pages of docs/reference, and tables in other pages, from the code; `--check` only compares."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generator import api, cli, configuration, exit_codes, health, metrics, policy, record_types

DOCS = Path(__file__).parent

PAGES = {
    "reference/api.md": api.page,
    "reference/cli.md": cli.page,
    "reference/configuration.md": configuration.page,
    "reference/policy.md": policy.page,
    "reference/json.md": record_types.page,
    "reference/exit-codes.md": exit_codes.page,
    "reference/health-issues.md": health.page,
    "reference/metrics.md": metrics.page,
}
# The text between `<!-- name:begin -->` and `<!-- name:end -->` in pages that are otherwise written by hand.
INSERTS = {("concepts.md", "issues"): health.summary}


def expected_pages() -> Iterator[tuple[Path, str]]:
    """Every generated page with its expected content."""
    for name, page in PAGES.items():
        yield DOCS / name, page()
    for (name, mark), text in INSERTS.items():
        yield DOCS / name, _insert(_read(DOCS / name), mark, text())


def stale() -> list[str]:
    """The pages that are outdated."""
    return [path.name for path, text in expected_pages() if _read(path) != text]


def write() -> None:
    for path, text in expected_pages():
        path.write_text(text, encoding="utf-8")


def _insert(page: str, mark: str, text: str) -> str:
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    return re.sub(f"(?s){begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", page)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        old = stale()
        if old:
            print(f"Outdated: {', '.join(old)}. Run: python docs/generate.py")
        return 1 if old else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
