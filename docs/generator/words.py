"""What the code does not say about itself, from words.yaml; a thing without words is an error."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "words.yaml"


class Undocumented(Exception):
    """A setting, option, field, issue or action that nobody has described."""


@cache
def all_words() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return content


def words(*path: str) -> Any:
    node: Any = all_words()
    for part in path:
        if not isinstance(node, dict) or part not in node:
            raise Undocumented(f"{' / '.join(path)} has no words in {FILE.name}.")
        node = node[part]
    return node.strip() if isinstance(node, str) else node


def known(*path: str) -> Any | None:
    try:
        return words(*path)
    except Undocumented:
        return None


def field_words(shape: type[Any], name: str) -> str:
    """The words for a field of this shape, else its docstring in the code, else those for any field of the name."""
    said = known("fields", shape.__name__, name) or attribute_docs(shape).get(name) or known("fields", "any", name)
    if said is None:
        raise Undocumented(f"{shape.__name__}.{name} has neither a docstring nor words in {FILE.name}.")
    return str(said)


@cache
def attribute_docs(shape: type[Any]) -> dict[str, str]:
    """The strings that stand below the attributes of a class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(shape))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, after in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = _string(after)
            if text:
                found[statement.target.id] = inspect.cleandoc(text)
    return found


def _string(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def first_paragraph(shape: type[Any]) -> str:
    """A class's docstring; dataclasses without one have their signature there, which says nothing."""
    text = inspect.cleandoc(shape.__doc__ or "").split("\n\n")[0]
    return "" if text.startswith(f"{shape.__name__}(") else text.replace("\n", " ")
