"""A YAML file as text, with its variables filled in and the line of every key remembered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from icepack.config.variables import Variables
from icepack.errors import ConfigError

KeyPath: TypeAlias = tuple[str | int, ...]

_NULL_TAG = "tag:yaml.org,2002:null"
_STANDARD_TAG = re.compile(r"tag:yaml\.org,2002:|!$")
_MERGE_KEY = "<<"


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says; every value is text until a setting gives it a type."""

    name: str = ""
    tree: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    """What variables with telling names put into it."""

    def where(self, path: KeyPath) -> str:
        """The file and the line of the key, or of the innermost block around it."""
        around = (path[:length] for length in range(len(path), -1, -1))
        line = next((self.lines[part] for part in around if part in self.lines), None)
        return f"{self.name}, line {line}" if line else self.name


def key_text(path: KeyPath) -> str:
    """The key as people write it: `tables[0].schedule`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def read_document(path: Path, variables: Mapping[str, str] | None) -> Document:
    """The file's settings; without `variables`, `${…}` is text like any other."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read ({exc.strerror}); check its name and its permissions.") from exc
    reader = _Reader(str(path), None if variables is None else Variables(variables))
    return reader.document(_compose(text, str(path)))


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        # The parser's own words may quote the file, and with it a secret: only its position is passed on.
        mark = exc.problem_mark or exc.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}{where}: {_yaml_problem(exc)}.") from None
    except yaml.YAMLError:
        raise ConfigError(f"{name} has a character that YAML does not allow; save it as plain UTF-8 text.") from None
    return node


def _yaml_problem(exc: yaml.MarkedYAMLError) -> str:
    problem = exc.problem or ""
    if "alias" in problem:
        return "a value that starts with * should stand in quotes"
    if "single document" in (exc.context or ""):
        return "a second document starts here; one file should hold one"
    if "cannot start any token" in problem:
        return "this is not YAML; indent with spaces, and put values that start with a special character in quotes"
    return "this is not YAML; check the indentation, the colons and the quotes here and in the line above"


class _Reader:
    def __init__(self, name: str, variables: Variables | None) -> None:
        self._name = name
        self._variables = variables
        self._lines: dict[KeyPath, int] = {}
        self._open: list[yaml.Node] = []

    def document(self, root: yaml.Node | None) -> Document:
        tree = None if root is None else self._read(root, ())
        if tree is not None and not isinstance(tree, dict):
            self._fail((), "should hold settings such as catalogs: and policy:")
        secrets = frozenset(self._variables.secrets if self._variables else ())
        return Document(self._name, tree or {}, self._lines, secrets)

    def _read(self, node: yaml.Node, path: KeyPath) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if not _STANDARD_TAG.match(node.tag):
            self._fail(path, "has a YAML tag; put a value that starts with ! in quotes")
        if any(node is outer for outer in self._open):
            self._fail(path, "contains itself; write the block out")
        self._open.append(node)
        value = self._value(node, path)
        self._open.pop()
        return value

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path)
            case yaml.SequenceNode():
                return [self._read(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return None if node.tag == _NULL_TAG else self._text(node.value, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for block in self._merged_blocks(node, path):
            merged |= self._read(block, path)
        for key_node, value_node in node.value:
            if key_node.value != _MERGE_KEY:
                key = self._key(key_node, path, own)
                own[key] = self._read(value_node, (*path, key))
        return merged | own

    def _key(self, node: yaml.Node, path: KeyPath, known: Mapping[str, Any]) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(path, "has a key that is no plain name")
        key = str(node.value)
        first = self._lines.get((*path, key))
        self._lines[*path, key] = node.start_mark.line + 1
        if key in known:
            self._fail((*path, key), f"stands in line {first} already; keep one of the two")
        return key

    def _merged_blocks(self, node: yaml.MappingNode, path: KeyPath) -> list[yaml.Node]:
        values = [value for key, value in node.value if key.value == _MERGE_KEY]
        blocks = [block for value in values for block in _items(value)]
        if not all(isinstance(block, yaml.MappingNode) for block in blocks):
            self._fail(path, "should name blocks after <<, as in <<: *block")
        return blocks[::-1]

    def _text(self, text: str, path: KeyPath) -> str:
        if self._variables is None:
            return text
        try:
            return self._variables.fill_in(text)
        except ValueError as exc:
            self._fail(path, str(exc))

    def _fail(self, path: KeyPath, problem: str) -> NoReturn:
        where = Document(self._name, lines=self._lines).where(path)
        raise ConfigError(f"{where}: {key_text(path)} {problem}.")


def _items(node: yaml.Node) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]
