"""One sentence for a mistake: where it stands, which setting it is, what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from icepack.config.environment import Environment
from icepack.config.secrets import hide, is_secret
from icepack.config.yaml_document import Document, KeyPath, key_text
from icepack.errors import ConfigError

LONGEST_QUOTE = 60

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
class Origins:
    """The sources of the settings, to tell which of them made a mistake."""

    document: Document
    environment: Environment
    variables: Mapping[str, Any]
    flags: Mapping[str, Any]

    def where(self, path: KeyPath) -> str:
        """The flag, the variable, or the line of the file."""
        if self._holder(path) is self.flags:
            return "On the command line"
        return self.environment.name_of(path) if self.is_variable(path) else self.document.where(path)

    def is_variable(self, path: KeyPath) -> bool:
        return self._holder(path) is self.variables

    def _holder(self, path: KeyPath) -> Mapping[str, Any]:
        """The strongest of those that say most about the setting."""
        return max((self.flags, self.variables, self.document.tree), key=lambda tree: _depth(tree, path))


def _depth(tree: Any, path: KeyPath) -> int:
    """How many steps of the path the tree can go."""
    for depth, part in enumerate(path):
        if isinstance(tree, Mapping) and part in tree:
            tree = tree[str(part)]
        elif isinstance(tree, list) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        else:
            return depth
    return len(path)


def explained(error: ValidationError, settings: type[BaseModel], origins: Origins) -> ConfigError:
    """The first mistake as one sentence; unknown keys come first, since they cause others."""
    mistakes = error.errors(include_url=False)
    first = min(mistakes, key=lambda mistake: mistake["type"] != "extra_forbidden")
    path = first.get("ctx", {}).get("path", first["loc"])
    problem = _problem(first, path, settings, origins)
    return ConfigError(f"{origins.where(path)}: {problem}{'' if problem.endswith('?') else '.'}")


def _problem(mistake: ErrorDetails, path: KeyPath, settings: type[BaseModel], origins: Origins) -> str:
    key, facts, secrets = key_text(path), mistake.get("ctx", {}), origins.document.secrets
    match mistake["type"]:
        case "extra_forbidden":
            return _unknown(path, settings)
        case "missing":
            return f"{key} is missing"
        case "does_not_fit":
            return f"{key} does not fit: {hide(facts['why'], secrets)}"
        case "switched_off":
            strategy = facts["strategy"]
            return f"{key} asks for {strategy}, but compaction.strategies.{strategy}.enabled is off; switch it on there"
    expected = _EXPECTED.get(mistake["type"], "something else").format_map(facts)
    written = " in JSON" if mistake["type"] in _STRUCTURES and origins.is_variable(path) else ""
    return f"{key} should be {expected}{written}{_instead(mistake['input'], path, secrets)}"


def _instead(value: Any, path: KeyPath, secrets: frozenset[str]) -> str:
    if value is None:
        return ", and is empty"
    if isinstance(value, Mapping):
        return ", not a block"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", not a list"
    is_open = not any(is_secret(str(part)) for part in path) and len(str(value)) <= LONGEST_QUOTE
    return f", not '{hide(str(value), secrets)}'" if is_open else ""


def _unknown(path: KeyPath, settings: type[BaseModel]) -> str:
    known = _keys_at(settings, path[:-1])
    close = get_close_matches(str(path[-1]), known, n=1)
    hint = f"did you mean {key_text((*path[:-1], close[0]))}?" if close else f"expected one of {', '.join(known)}"
    return f"there is no setting {key_text(path)}; {hint}"


def _keys_at(settings: type[BaseModel], path: KeyPath) -> list[str]:
    model = settings
    for part in path:
        if isinstance(part, str):
            annotation = model.model_fields[part].annotation
            model = next(iter(get_args(annotation)), annotation)  # type: ignore[assignment]
    return list(model.model_fields)
