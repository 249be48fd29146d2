"""Turns a pydantic error into one sentence: the source, the setting and the expected value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from icepack.config.environment import EnvironmentSettings
from icepack.config.secrets import is_secret, mask_secrets
from icepack.config.yaml_document import KeyPath, YamlDocument, format_key
from icepack.errors import ConfigError

# Longer values are left out of an error message.
MAX_QUOTED_LENGTH = 60

_EXPECTED = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a block of settings",
    "model_type": "a block of settings",
    "expected": "{expected}",
    "enum": "one of {expected}",
    "literal_error": "one of {expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}
_STRUCTURES = frozenset({"list_type", "tuple_type", "dict_type", "model_type"})


@dataclass(frozen=True, slots=True)
class SettingSources:
    """The file, variables and flags that settings were read from, to name the source of an invalid one."""

    document: YamlDocument
    environment: EnvironmentSettings
    variables: Mapping[str, Any]
    flags: Mapping[str, Any]

    def locate(self, path: KeyPath) -> str:
        """Returns where a setting was given: on the command line, in a variable, or in a line of the file."""
        if self._source_of(path) is self.flags:
            return "On the command line"
        return self.environment.name_of(path) if self.is_variable(path) else self.document.locate(path)

    def is_variable(self, path: KeyPath) -> bool:
        return self._source_of(path) is self.variables

    def _source_of(self, path: KeyPath) -> Mapping[str, Any]:
        """Returns the source that holds most of the path; the one with the highest precedence wins a tie."""
        return max((self.flags, self.variables, self.document.tree), key=lambda tree: _depth(tree, path))


def _depth(tree: Any, path: KeyPath) -> int:
    """Counts the leading parts of the path that exist in the tree."""
    for depth, part in enumerate(path):
        if isinstance(tree, Mapping) and part in tree:
            tree = tree[str(part)]
        elif isinstance(tree, list) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        else:
            return depth
    return len(path)


def describe_error(error: ValidationError, settings: type[BaseModel], sources: SettingSources) -> ConfigError:
    """Describes the first problem in one sentence; unknown keys come first, because they cause other problems."""
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    path = first.get("ctx", {}).get("path", first["loc"])
    text = _describe_problem(first, path, settings, sources)
    return ConfigError(f"{sources.locate(path)}: {text}{'' if text.endswith('?') else '.'}")


def _describe_problem(problem: ErrorDetails, path: KeyPath, settings: type[BaseModel], sources: SettingSources) -> str:
    key, context, secrets = format_key(path), problem.get("ctx", {}), sources.document.secrets
    match problem["type"]:
        case "extra_forbidden":
            return _describe_unknown_key(path, settings)
        case "missing":
            return f"{key} is missing"
        case "invalid_value":
            return f"{key} is invalid: {mask_secrets(context['reason'], secrets)}"
        case "disabled_strategy":
            return _describe_disabled_strategy(key, context["strategy"])
    expected = _EXPECTED.get(problem["type"], "something else").format_map(context)
    form = " in JSON" if problem["type"] in _STRUCTURES and sources.is_variable(path) else ""
    return f"{key} should be {expected}{form}{_describe_actual(problem['input'], path, secrets)}"


def _describe_disabled_strategy(key: str, strategy: str) -> str:
    return (
        f"{key} is {strategy}, but compaction.strategies.{strategy}.enabled is false; "
        "enable it there or choose another strategy"
    )


def _describe_actual(value: Any, path: KeyPath, secrets: frozenset[str]) -> str:
    if value is None:
        return ", but is empty"
    if isinstance(value, Mapping):
        return ", not a block"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", not a list"
    may_be_quoted = not any(is_secret(str(part)) for part in path) and len(str(value)) <= MAX_QUOTED_LENGTH
    return f", not '{mask_secrets(str(value), secrets)}'" if may_be_quoted else ""


def _describe_unknown_key(path: KeyPath, settings: type[BaseModel]) -> str:
    known = _keys_at(settings, path[:-1])
    close = get_close_matches(str(path[-1]), known, n=1)
    hint = f"did you mean {format_key((*path[:-1], close[0]))}?" if close else f"expected one of {', '.join(known)}"
    return f"unknown setting {format_key(path)}; {hint}"


def _keys_at(settings: type[BaseModel], path: KeyPath) -> list[str]:
    model = settings
    for part in path:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            model = next(iter(get_args(annotation)), annotation)  # type: ignore[assignment]
    return list(model.model_fields)
