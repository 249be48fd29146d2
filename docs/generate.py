"""Writes the pages of docs/reference, and tables in other pages, from the code; `--check` only compares."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generator import api, cli, configuration, exit_codes, health, metrics, policy, shapes

DOCS = Path(__file__).parent

PAGES = {
    "reference/api.md": api.page,
    "reference/cli.md": cli.page,
    "reference/configuration.md": configuration.page,
    "reference/policy.md": policy.page,
    "reference/json.md": shapes.page,
    "reference/exit-codes.md": exit_codes.page,
    "reference/health-issues.md": health.page,
    "reference/metrics.md": metrics.page,
}
INSERTS = {("concepts.md", "issues"): health.summary}
"""What stands between `<!-- name:begin -->` and `<!-- name:end -->` in a page that is written by hand."""


def wanted() -> Iterator[tuple[Path, str]]:
    """Every page that is made here, as it should be."""
    for name, page in PAGES.items():
        yield DOCS / name, page()
    for (name, mark), text in INSERTS.items():
        yield DOCS / name, _inserted(_written(DOCS / name), mark, text())


def stale() -> list[str]:
    """The pages that do not say what the code says."""
    return [path.name for path, text in wanted() if _written(path) != text]


def write() -> None:
    for path, text in wanted():
        path.write_text(text, encoding="utf-8")


def _inserted(page: str, mark: str, text: str) -> str:
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    return re.sub(f"(?s){begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", page)


def _written(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        old = stale()
        if old:
            print(f"Stale: {', '.join(old)}. Run: python docs/generate.py")
        return 1 if old else 0
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
