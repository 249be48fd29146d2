"""Markdown in small pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTICE = "<!-- Made by docs/generate.py from the code and docs/generator/words.yaml. Do not edit by hand. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *(block.strip() for block in blocks if block.strip())]) + "\n"


def section(title: str, *blocks: str, level: int = 2) -> str:
    return "\n\n".join([f"{'#' * level} {title}", *(block.strip() for block in blocks if block.strip())])


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(headers), _line(["---"] * len(headers)), *(_line(row) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ").strip() for cell in cells) + " |"


def code(text: object) -> str:
    return f"`{text}`"


def codes(values: Iterable[object]) -> str:
    return ", ".join(code(value) for value in values)


def fence(text: str, language: str = "") -> str:
    return f"```{language}\n{text.strip()}\n```"


def anchor(title: str) -> str:
    """The fragment that Markdown viewers give to a heading."""
    kept = "".join(character for character in title.lower() if character.isalnum() or character in " -_")
    return "#" + kept.replace(" ", "-")
