"""What PyIceberg itself would find: `.pyiceberg.yaml` and `PYICEBERG_CATALOG__…` variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from icepack.config.environment import property_name
from icepack.config.secrets import is_secret, without_passwords
from icepack.config.yaml_document import Document, read_document

FILE_NAME = ".pyiceberg.yaml"
HOME_VARIABLE = "PYICEBERG_HOME"
_CATALOG_VARIABLE = re.compile(r"PYICEBERG_CATALOG__(.+?)__(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Property:
    """A catalog's property, and the variable that holds it or could."""

    value: str
    variable: str
    is_secret: bool


@dataclass(frozen=True, slots=True)
class FoundCatalogs:
    """PyIceberg's catalogs by name, and where they were found."""

    catalogs: Mapping[str, Mapping[str, Property]]
    origins: tuple[str, ...]


def find_catalogs(environ: Mapping[str, str], cwd: Path, home: Path) -> FoundCatalogs:
    """PyIceberg's own lookup: the first file with anything in it, then the variables over it."""
    document = _first_document([environ.get(HOME_VARIABLE), home, cwd])
    found = list(_from_file(document)), list(_from_variables(environ))
    catalogs: dict[str, dict[str, Property]] = {}
    for name, key, value in (*found[0], *found[1]):
        catalogs.setdefault(name, {})[key] = value
    origins = (document.name, "the environment")
    return FoundCatalogs(catalogs, tuple(origin for origin, any_found in zip(origins, found, strict=True) if any_found))


def _first_document(folders: list[str | Path | None]) -> Document:
    paths = [Path(folder) / FILE_NAME for folder in folders if folder]
    documents = (read_document(path, variables=None) for path in paths if path.is_file())
    return next((document for document in documents if document.tree), Document())


def _from_file(document: Document) -> Iterator[tuple[str, str, Property]]:
    tree = {key.lower(): value for key, value in document.tree.items()}
    for name, properties in _block(tree.get("catalog")):
        for key, value in _block(properties):
            if isinstance(value, str):
                yield name, key, _property(key, value, _variable(name, key))


def _block(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((str(key).lower(), item) for key, item in value.items())


def _variable(name: str, key: str) -> str:
    spelled = f"PYICEBERG_CATALOG__{name}__{key.replace('.', '__')}"
    return re.sub(r"\W", "_", spelled, flags=re.ASCII).upper()


def _from_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Property]]:
    for variable, value in environ.items():
        found = _CATALOG_VARIABLE.fullmatch(variable)
        if found and value:
            key = property_name(found[2].split("__"))
            yield property_name([found[1]]), key, _property(key, value, variable)


def _property(key: str, value: str, variable: str) -> Property:
    return Property(value, variable, is_secret(key) or without_passwords(value) != value)
