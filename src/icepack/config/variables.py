"""`${NAME}` and `${NAME:-default}` in a value, filled in; `$${` stays as the text `${`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from icepack.config.secrets import is_secret

_VARIABLE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<odd>\$\{)")


class Variables:
    """The environment of a file, and which of its secrets the file has used."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.secrets: set[str] = set()

    def fill_in(self, text: str) -> str:
        """The text with its variables replaced; a ValueError says what is wrong with one."""
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        if found["odd"]:
            raise ValueError("has a ${ that names no variable; write ${NAME}, ${NAME:-default}, or $${ for the text")
        name, default = found["name"], found["default"]
        if name not in self._values and default is None:
            raise ValueError(f"uses ${{{name}}}, which is not set; set it, or write a default as ${{{name}:-default}}")
        value = self._values.get(name) or default or ""
        if value and is_secret(name):
            self.secrets.add(value)
        return value


def as_text(value: str) -> str:
    """The value as a file must spell it, so that nothing in it is taken for a variable."""
    return value.replace("${", "$${")
