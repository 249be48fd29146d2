"""Reads `ICEPACK_*` variables as settings: `ICEPACK_SPARK__MASTER` sets `spark.master`.

Spark's own settings contain capital letters, so the part after `ICEPACK_SPARK__CONF__` keeps its case unless all of it
is upper case: `ICEPACK_SPARK__CONF__spark__sql__adaptive__coalescePartitions__enabled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from icepack.config.yaml_document import KeyPath
from icepack.errors import ConfigError

PREFIX = "ICEPACK_"
CONFIG_VARIABLE = "ICEPACK_CONFIG"
SEPARATOR = "__"


class MappingEnvSource(EnvSettingsSource):
    """A pydantic-settings environment source that reads a given mapping instead of `os.environ`."""

    def __init__(self, settings_cls: type[BaseSettings], variables: Mapping[str, str]) -> None:
        self._variables = variables
        super().__init__(settings_cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._variables

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


@dataclass(frozen=True, slots=True)
class EnvironmentSettings:
    """The variables that hold settings, by the path of the setting."""

    source: MappingEnvSource
    names: Mapping[tuple[str, ...], str]

    def name_of(self, path: KeyPath) -> str:
        """Returns the variable that holds the setting, its enclosing block or a part of it."""
        return self.names[max(self.names, key=lambda own: (_common_length(own, path), -len(own)))]


def _common_length(own: KeyPath, path: KeyPath) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, path, strict=False)))


def read_environment(
    settings: type[BaseSettings], environ: Mapping[str, str], catalogs: Iterable[str]
) -> EnvironmentSettings:
    """Reads the settings among the variables; `catalogs` gives the spelling of catalog names in the file."""
    catalog_names = {_normalize(name): name for name in catalogs}
    names: dict[tuple[str, ...], str] = {}
    for name, value in environ.items():
        if name.upper().startswith(PREFIX) and name.upper() != CONFIG_VARIABLE and value:
            path = _parse_path(name, catalog_names)
            if path[0] in settings.model_fields:
                names[path] = name
            elif len(path) > 1:
                raise ConfigError(_unknown_setting(name, path[0], settings))
    variables = {f"{PREFIX.lower()}{SEPARATOR.join(path)}": environ[name] for path, name in names.items()}
    return EnvironmentSettings(MappingEnvSource(settings, variables), names)


def _parse_path(name: str, catalogs: Mapping[str, str]) -> tuple[str, ...]:
    parts = name[len(PREFIX) :].split(SEPARATOR)
    first, *rest = (part.lower() for part in parts)
    if (first, *rest[:1]) == ("spark", "conf") and rest[1:]:
        return (first, "conf", _spark_setting(parts[2:]))
    if first == "catalog" and rest:
        return (first, property_name(rest))
    if first == "catalogs" and rest:
        catalog = catalogs.get(_normalize(rest[0]), rest[0])
        return (first, catalog, property_name(rest[1:])) if rest[1:] else (first, catalog)
    return (first, *rest)


def _spark_setting(parts: Iterable[str]) -> str:
    name = ".".join(parts)
    return name.lower() if name.isupper() else name


def property_name(parts: Iterable[str]) -> str:
    """Returns the PyIceberg property that the parts of a variable name: `S3__ACCESS_KEY_ID` is `s3.access-key-id`."""
    return ".".join(part.lower().replace("_", "-") for part in parts)


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")


def _unknown_setting(name: str, key: str, settings: type[BaseSettings]) -> str:
    close = get_close_matches(key, settings.model_fields, n=1)
    hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(settings.model_fields)}."
    return f"{name}: unknown setting {key}; {hint}"
