"""The package keeps to its conventions: unique class names, small folders, plain words."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "src" / "icepack"
METAPHORS = Path(__file__).with_name("metaphors.txt")
MAX_MODULES = 15
FORBIDDEN_MODULES = {"utils", "util", "helpers", "helper", "common", "misc"}
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "versions" not in path.parts]


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def where(path: Path, node: ast.AST | None = None) -> str:
    place = str(path.relative_to(PACKAGE))
    return f"{place}:{node.lineno}" if isinstance(node, ast.stmt | ast.expr) else place


def metaphors() -> list[str]:
    lines = METAPHORS.read_text("utf-8").splitlines()
    return [line.partition(":")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yields every literal text inside of an expression."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def is_log_call(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS):
        return False
    return isinstance(node.func.value, ast.Name) and node.func.value.id in ("log", "logger")


def messages(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yields the texts of log calls and raised errors."""
    for node in ast.walk(tree):
        if is_log_call(node) or isinstance(node, ast.Raise):
            for text in texts_of(node):
                yield node, text


def metaphor_in(text: str) -> str | None:
    return next((word for word in metaphors() if re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)), None)


def test_class_names_are_unique_in_the_package() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(where(path))
    assert {name: sorted(places) for name, places in found.items() if len(places) > 1} == {}


def test_no_folder_has_more_than_fifteen_modules() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules():
        if path.name != "__init__.py":
            counts[str(path.parent.relative_to(PACKAGE))] += 1
    assert {folder: count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_no_module_is_named_after_nothing() -> None:
    assert [where(path) for path in modules() if path.stem in FORBIDDEN_MODULES] == []


def test_log_lines_and_error_texts_have_no_metaphors() -> None:
    found = [
        f"{where(path, node)}: {word!r} in {text!r}"
        for path in modules()
        for node, text in messages(parse(path))
        if (word := metaphor_in(text))
    ]
    assert found == []


def test_module_class_and_function_names_have_no_metaphors() -> None:
    words = {word for word in metaphors() if " " not in word}
    found = []
    for path in modules():
        names = [path.stem]
        names += [
            node.name
            for node in ast.walk(parse(path))
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        found += [f"{where(path)}: {name}" for name in names if words & split_name(name)]
    assert found == []


def split_name(name: str) -> set[str]:
    """Splits snake_case and CamelCase into lower-case words."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('log.warning("the reaper stumbled: %s", error)', "stumbled"),
        ('raise ValueError(f"the cursor {cursor} is none of ours")', "none of ours"),
        ('log.warning("reaper iteration failed: %s", error)', None),
    ],
)
def test_the_search_for_metaphors_finds_them(source: str, expected: str | None) -> None:
    found = [metaphor_in(text) for _, text in messages(ast.parse(source))]
    assert next((word for word in found if word), None) == expected


def test_names_are_split_into_words() -> None:
    assert split_name("_ready_lanes") == {"ready", "lanes"}
    assert split_name("HTTPDoorman") == {"http", "doorman"}
