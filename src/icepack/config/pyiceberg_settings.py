"""Finds the catalogs that PyIceberg itself would find: in `.pyiceberg.yaml` and `PYICEBERG_CATALOG__…` variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from icepack.config.environment import property_name
from icepack.config.secrets import is_secret, mask_passwords
from icepack.config.yaml_document import YamlDocument, read_document

FILE_NAME = ".pyiceberg.yaml"
HOME_VARIABLE = "PYICEBERG_HOME"
_CATALOG_VARIABLE = re.compile(r"PYICEBERG_CATALOG__(.+?)__(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CatalogProperty:
    """A property of a catalog, and the environment variable that sets it or could set it."""

    value: str
    variable: str
    is_secret: bool


@dataclass(frozen=True, slots=True)
class PyIcebergCatalogs:
    """PyIceberg's catalogs by name, and where they were found."""

    catalogs: Mapping[str, Mapping[str, CatalogProperty]]
    origins: tuple[str, ...]


def find_catalogs(environ: Mapping[str, str], cwd: Path, home: Path) -> PyIcebergCatalogs:
    """Looks in the same order as PyIceberg: the first file that is not empty, overridden by the variables."""
    document = _first_document([environ.get(HOME_VARIABLE), home, cwd])
    found = list(_from_file(document)), list(_from_variables(environ))
    catalogs: dict[str, dict[str, CatalogProperty]] = {}
    for name, key, value in (*found[0], *found[1]):
        catalogs.setdefault(name, {})[key] = value
    origins = (document.name, "the environment")
    return PyIcebergCatalogs(
        catalogs, tuple(origin for origin, any_found in zip(origins, found, strict=True) if any_found)
    )


def _first_document(folders: list[str | Path | None]) -> YamlDocument:
    paths = [Path(folder) / FILE_NAME for folder in folders if folder]
    documents = (read_document(path, variables=None) for path in paths if path.is_file())
    return next((document for document in documents if document.tree), YamlDocument())


def _from_file(document: YamlDocument) -> Iterator[tuple[str, str, CatalogProperty]]:
    tree = {key.lower(): value for key, value in document.tree.items()}
    for name, properties in _items(tree.get("catalog")):
        for key, value in _items(properties):
            if isinstance(value, str):
                yield name, key, _catalog_property(key, value, _variable_name(name, key))


def _items(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((str(key).lower(), item) for key, item in value.items())


def _variable_name(name: str, key: str) -> str:
    variable = f"PYICEBERG_CATALOG__{name}__{key.replace('.', '__')}"
    return re.sub(r"\W", "_", variable, flags=re.ASCII).upper()


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, CatalogProperty]]:
    for variable, value in environ.items():
        match = _CATALOG_VARIABLE.fullmatch(variable)
        if match and value:
            key = property_name(match[2].split("__"))
            yield property_name([match[1]]), key, _catalog_property(key, value, variable)


def _catalog_property(key: str, value: str, variable: str) -> CatalogProperty:
    return CatalogProperty(value, variable, is_secret(key) or mask_passwords(value) != value)
