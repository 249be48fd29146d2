"""Reads a YAML file with its variables expanded and remembers the line of each key, for error messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from icepack.config.variables import VariableExpander
from icepack.errors import ConfigError

KeyPath: TypeAlias = tuple[str | int, ...]

_NULL_TAG = "tag:yaml.org,2002:null"
_STANDARD_TAG = re.compile(r"tag:yaml\.org,2002:|!$")
_MERGE_KEY = "<<"


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The content of a file; every value is text until a setting gives it a type.

    `secrets` are the values that came from variables whose names mark them as secret.
    """

    name: str = ""
    tree: dict[str, Any] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()

    def locate(self, path: KeyPath) -> str:
        """Returns the file and the line of the key, or of the innermost block around it."""
        prefixes = (path[:length] for length in range(len(path), -1, -1))
        line = next((self.lines[prefix] for prefix in prefixes if prefix in self.lines), None)
        return f"{self.name}, line {line}" if line else self.name


def format_key(path: KeyPath) -> str:
    """Formats a key as users write it: `tables[0].schedule`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def read_document(path: Path, variables: Mapping[str, str] | None) -> YamlDocument:
    """Reads the settings of a file; with `variables=None`, `${…}` is kept as text."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read ({exc.strerror}); check its name and its permissions.") from exc
    reader = _YamlReader(str(path), None if variables is None else VariableExpander(variables))
    return reader.read(_compose(text, str(path)))


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as exc:
        # Only the position is reported: the parser's message may quote the file, and with it a secret.
        mark = exc.problem_mark or exc.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}{where}: {_describe_yaml_error(exc)}.") from None
    except yaml.YAMLError:
        raise ConfigError(f"{name} has a character that YAML does not allow; save it as plain UTF-8 text.") from None
    return node


def _describe_yaml_error(exc: yaml.MarkedYAMLError) -> str:
    problem = exc.problem or ""
    if "alias" in problem:
        return "a value that starts with * must be quoted"
    if "single document" in (exc.context or ""):
        return "a second YAML document starts here; a file may have only one"
    if "cannot start any token" in problem:
        return "invalid YAML; indent with spaces, and quote values that start with a special character"
    return "invalid YAML; check the indentation, the colons and the quotes on this line and the one above"


class _YamlReader:
    def __init__(self, name: str, variables: VariableExpander | None) -> None:
        self._name = name
        self._variables = variables
        self._lines: dict[KeyPath, int] = {}
        self._open_nodes: list[yaml.Node] = []

    def read(self, root: yaml.Node | None) -> YamlDocument:
        tree = None if root is None else self._read_node(root, ())
        if tree is not None and not isinstance(tree, dict):
            self._fail((), "should contain settings such as catalogs: and policy:")
        secrets = frozenset(self._variables.secrets if self._variables else ())
        return YamlDocument(self._name, tree or {}, self._lines, secrets)

    def _read_node(self, node: yaml.Node, path: KeyPath) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if not _STANDARD_TAG.match(node.tag):
            self._fail(path, "has a YAML tag; quote a value that starts with !")
        if any(node is outer for outer in self._open_nodes):
            self._fail(path, "contains itself; write the block out")
        self._open_nodes.append(node)
        value = self._read_value(node, path)
        self._open_nodes.pop()
        return value

    def _read_value(self, node: yaml.Node, path: KeyPath) -> Any:
        match node:
            case yaml.MappingNode():
                return self._read_mapping(node, path)
            case yaml.SequenceNode():
                return [self._read_node(item, (*path, index)) for index, item in enumerate(node.value)]
            case _:
                return None if node.tag == _NULL_TAG else self._expand(node.value, path)

    def _read_mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for block in self._merged_blocks(node, path):
            merged |= self._read_node(block, path)
        for key_node, value_node in node.value:
            if key_node.value != _MERGE_KEY:
                key = self._read_key(key_node, path, own)
                own[key] = self._read_node(value_node, (*path, key))
        return merged | own

    def _read_key(self, node: yaml.Node, path: KeyPath, known: Mapping[str, Any]) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(path, "has a key that is not plain text")
        key = str(node.value)
        first = self._lines.get((*path, key))
        self._lines[*path, key] = node.start_mark.line + 1
        if key in known:
            self._fail((*path, key), f"is already set on line {first}; remove one of the two")
        return key

    def _merged_blocks(self, node: yaml.MappingNode, path: KeyPath) -> list[yaml.Node]:
        values = [value for key, value in node.value if key.value == _MERGE_KEY]
        blocks = [block for value in values for block in _as_list(value)]
        if not all(isinstance(block, yaml.MappingNode) for block in blocks):
            self._fail(path, "should refer to blocks after <<, as in <<: *block")
        return blocks[::-1]

    def _expand(self, text: str, path: KeyPath) -> str:
        if self._variables is None:
            return text
        try:
            return self._variables.expand(text)
        except ValueError as exc:
            self._fail(path, str(exc))

    def _fail(self, path: KeyPath, problem: str) -> NoReturn:
        where = YamlDocument(self._name, lines=self._lines).locate(path)
        raise ConfigError(f"{where}: {format_key(path)} {problem}.")


def _as_list(node: yaml.Node) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]
