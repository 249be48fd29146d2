"""`icepack init`: a first `icepack.yaml` from what is already there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from icepack.config.folders import LAKE, EmbeddedLake
from icepack.config.pyiceberg_settings import FoundCatalogs, Property, find_catalogs
from icepack.config.variables import as_text
from icepack.errors import ConfigError

_HEAD = """\
# icepack's configuration; `icepack config` shows all that holds, defaults included.
# Any value may use the environment: ${NAME} or ${NAME:-default}.

# Catalogs by name, with PyIceberg's property names.
"""

_TAIL = """
# For every table:
# policy:
#   snapshot_retention: 7d
#   orphan_retention: 7d
#   small_file_threshold: 32MB

# For some tables:
# policies:
#   - match: sales.*
#     target_file_size: 256MB

# For one table, with a schedule of its own:
# tables:
#   - name: sales.orders
#     schedule: "0 2 * * *"
#     strategy: small_files
"""


def write_starter(path: Path, *, environ: Mapping[str, str], cwd: Path, home: Path) -> str:
    """Writes the file, never over another one, and says what it holds and what is left to do."""
    found = find_catalogs(environ, cwd, home)
    target = cwd / path
    if not found.catalogs:
        lake = EmbeddedLake.of_user({"HOME": str(home), **environ})
        _write_new(target, _text({LAKE: lake.properties}, ["The embedded lake of this user."]))
        return f"Wrote {target} for the embedded lake in {lake.folder}; `icepack demo` fills one with examples."
    _write_new(target, _text(_properties(found), _notes(found)))
    unset = [variable for variable in _secret_variables(found) if not environ.get(variable)]
    left = f" Set {', '.join(unset)} before you use it." if unset else ""
    return f"Wrote {target} with {', '.join(found.catalogs)} from {' and '.join(found.origins)}.{left}"


def _write_new(path: Path, text: str) -> None:
    if path.exists():
        raise ConfigError(f"{path} is there already; remove it first, or choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written ({exc.strerror}); choose another place.") from exc


def _text(catalogs: Mapping[str, Mapping[str, str]], notes: list[str]) -> str:
    comments = "".join(f"# {note}\n" for note in notes)
    block = yaml.safe_dump({"catalogs": catalogs}, sort_keys=False, allow_unicode=True, width=10_000)
    return f"{_HEAD}{comments}{block}{_TAIL}"


def _notes(found: FoundCatalogs) -> list[str]:
    notes = [f"Taken from {' and '.join(found.origins)}."]
    variables = _secret_variables(found)
    return [*notes, f"Secrets are not copied; set {', '.join(variables)}."] if variables else notes


def _secret_variables(found: FoundCatalogs) -> list[str]:
    properties = [prop for catalog in found.catalogs.values() for prop in catalog.values()]
    return [prop.variable for prop in properties if prop.is_secret]


def _properties(found: FoundCatalogs) -> dict[str, dict[str, str]]:
    return {
        name: {key: _written(prop) for key, prop in properties.items()} for name, properties in found.catalogs.items()
    }


def _written(prop: Property) -> str:
    return f"${{{prop.variable}}}" if prop.is_secret else as_text(prop.value)
