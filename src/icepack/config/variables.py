"""Expands `${NAME}` and `${NAME:-default}` in a value; `$${` is a literal `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from icepack.config.secrets import is_secret

_VARIABLE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<invalid>\$\{)")


class VariableExpander:
    """Expands variables in the values of a file and records which secrets it inserted."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.secrets: set[str] = set()

    def expand(self, text: str) -> str:
        """Replaces the variables in a text; raises ValueError for one that is unset or malformed."""
        return _VARIABLE.sub(self._replacement, text)

    def _replacement(self, match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        if match["invalid"]:
            raise ValueError("has a ${ without a variable name; write ${NAME}, ${NAME:-default}, or $${ for the text")
        name, default = match["name"], match["default"]
        if name not in self._values and default is None:
            raise ValueError(f"uses ${{{name}}}, which is not set; set it, or write a default as ${{{name}:-default}}")
        value = self._values.get(name) or default or ""
        if value and is_secret(name):
            self.secrets.add(value)
        return value


def escape_variables(value: str) -> str:
    """Escapes a value for a file, so that nothing in it is read as a variable."""
    return value.replace("${", "$${")
