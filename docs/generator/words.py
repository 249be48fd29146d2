"""Text from words.yaml that the code does not contain; missing text is an error."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "words.yaml"


class Undocumented(Exception):
    """A setting, option, field, issue or action that has no text."""


@cache
def all_words() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return content


def words(*path: str) -> Any:
    node: Any = all_words()
    for part in path:
        if not isinstance(node, dict) or part not in node:
            raise Undocumented(f"{' / '.join(path)} has no text in {FILE.name}.")
        node = node[part]
    return node.strip() if isinstance(node, str) else node


def known(*path: str) -> Any | None:
    try:
        return words(*path)
    except Undocumented:
        return None


def field_words(shape: type[Any], name: str) -> str:
    """The text for a field: from words.yaml, else from the code, else the general text for fields of this name."""
    text = known("fields", shape.__name__, name) or attribute_docs(shape).get(name) or known("fields", "any", name)
    if text is None:
        raise Undocumented(f"{shape.__name__}.{name} has neither a comment nor a text in {FILE.name}.")
    return str(text)


@cache
def attribute_docs(shape: type[Any]) -> dict[str, str]:
    """The comments before the attributes of a class, or the strings below them."""
    source = textwrap.dedent(inspect.getsource(shape))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, after in zip_longest(definition.body, definition.body[1:]):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _comment_before(source.splitlines(), statement.lineno) or _string(after)
            if text:
                found[statement.target.id] = inspect.cleandoc(text)
    return found


def _comment_before(lines: list[str], number: int) -> str:
    """The block of comment lines that ends right above line `number`, counted from 1."""
    above = takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: number - 1]))
    return " ".join(line.strip().removeprefix("#").strip() for line in reversed(list(above)))


def _string(statement: ast.stmt | None) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def first_paragraph(shape: type[Any]) -> str:
    """The first paragraph of a class's docstring; empty for dataclasses whose docstring is the generated signature."""
    text = inspect.cleandoc(shape.__doc__ or "").split("\n\n")[0]
    return "" if text.startswith(f"{shape.__name__}(") else text.replace("\n", " ")
