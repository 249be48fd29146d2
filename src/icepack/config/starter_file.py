"""Writes the first `icepack.yaml` for `icepack init`, from the catalogs that PyIceberg already knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from icepack.config.folders import LAKE, EmbeddedLake
from icepack.config.pyiceberg_settings import CatalogProperty, PyIcebergCatalogs, find_catalogs
from icepack.config.variables import escape_variables
from icepack.errors import ConfigError

_HEADER = """\
# icepack's configuration; `icepack config` shows all effective settings, including defaults.
# Values may refer to environment variables: ${NAME} or ${NAME:-default}.

# Catalogs by name, with PyIceberg's property names.
"""

_EXAMPLES = """
# For every table:
# policy:
#   snapshot_retention: 7d
#   orphan_retention: 7d
#   small_file_threshold: 32MB

# For some tables:
# policies:
#   - match: sales.*
#     target_file_size: 256MB

# For one table, with its own schedule:
# tables:
#   - name: sales.orders
#     schedule: "0 2 * * *"
#     strategy: small_files
"""


def write_starter_file(path: Path, *, environ: Mapping[str, str], cwd: Path, home: Path) -> str:
    """Writes the file unless it exists, and returns a sentence that says what it contains and what to do next."""
    found = find_catalogs(environ, cwd, home)
    target = cwd / path
    if not found.catalogs:
        lake = EmbeddedLake.of_user({"HOME": str(home), **environ})
        _write_new(target, _render({LAKE: lake.properties}, ["The embedded lake of this user."]))
        return f"Wrote {target} for the embedded lake in {lake.folder}; `icepack demo` fills it with sample tables."
    _write_new(target, _render(_catalog_block(found), _comments(found)))
    unset = [variable for variable in _secret_variables(found) if not environ.get(variable)]
    next_step = f" Set {', '.join(unset)} before you use it." if unset else ""
    return f"Wrote {target} with {', '.join(found.catalogs)} from {' and '.join(found.origins)}.{next_step}"


def _write_new(path: Path, text: str) -> None:
    if path.exists():
        raise ConfigError(f"{path} already exists; remove it first, or choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written ({exc.strerror}); choose another location.") from exc


def _render(catalogs: Mapping[str, Mapping[str, str]], comments: list[str]) -> str:
    comment_lines = "".join(f"# {comment}\n" for comment in comments)
    block = yaml.safe_dump({"catalogs": catalogs}, sort_keys=False, allow_unicode=True, width=10_000)
    return f"{_HEADER}{comment_lines}{block}{_EXAMPLES}"


def _comments(found: PyIcebergCatalogs) -> list[str]:
    comments = [f"Copied from {' and '.join(found.origins)}."]
    variables = _secret_variables(found)
    return [*comments, f"Secrets are not copied; set {', '.join(variables)}."] if variables else comments


def _secret_variables(found: PyIcebergCatalogs) -> list[str]:
    properties = [prop for catalog in found.catalogs.values() for prop in catalog.values()]
    return [prop.variable for prop in properties if prop.is_secret]


def _catalog_block(found: PyIcebergCatalogs) -> dict[str, dict[str, str]]:
    return {
        name: {key: _property_text(prop) for key, prop in properties.items()}
        for name, properties in found.catalogs.items()
    }


def _property_text(prop: CatalogProperty) -> str:
    return f"${{{prop.variable}}}" if prop.is_secret else escape_variables(prop.value)
