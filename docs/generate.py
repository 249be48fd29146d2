"""Writes the pages of docs/reference from the code: `python docs/generate.py`, or `--check` to only compare."""

from __future__ import annotations

import sys
from pathlib import Path

from generator import cli, configuration, exit_codes, health, policy, shapes

REFERENCE = Path(__file__).parent / "reference"

PAGES = {
    "cli.md": cli.page,
    "configuration.md": configuration.page,
    "policy.md": policy.page,
    "json.md": shapes.page,
    "exit-codes.md": exit_codes.page,
    "health-issues.md": health.page,
}


def stale() -> list[str]:
    """The pages that do not say what the code says."""
    return [name for name, page in PAGES.items() if _written(REFERENCE / name) != page()]


def write() -> None:
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


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
