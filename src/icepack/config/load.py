"""From file, variables and flags to one configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import InitSettingsSource

from icepack.config.environment import CONFIG_VARIABLE, Environment, read_environment
from icepack.config.error_messages import Origins, explained
from icepack.config.folders import LAKE, EmbeddedLake, default_state_url, user_folder
from icepack.config.settings import CompactionConfig
from icepack.config.yaml_document import Document, read_document
from icepack.errors import ConfigError, UsageError

FILE_NAME = "icepack.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """The configuration and where it came from."""

    config: CompactionConfig
    source: Path | None
    lake: EmbeddedLake | None
    """The embedded lake, where it is the only catalog."""

    @property
    def embedded(self) -> bool:
        return self.lake is not None

    @property
    def lake_exists(self) -> bool:
        """False only for an embedded lake that nobody has built yet."""
        return self.lake is None or self.lake.exists

    def need_lake(self) -> str:
        """For whoever cannot go on without one."""
        if not self.lake_exists:
            raise UsageError(
                "There is no lake yet.",
                "`icepack demo` builds a sample one; `icepack init` writes an icepack.yaml that points at yours.",
            )
        return "there"


def load_config(
    path: Path | None = None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] = {},
    cwd: Path,
) -> LoadedConfig:
    """Defaults < file < `ICEPACK_*` variables < overrides (flags; None is a flag that was not given)."""
    source = find_file(path, environ, cwd)
    document = read_document(source, environ) if source else Document()
    catalogs = document.tree.get("catalogs")
    environment = read_environment(CompactionConfig, environ, catalogs if isinstance(catalogs, dict) else ())
    config = _merged(document, environment, _given(overrides))
    return _completed(config.knowing(document.secrets), source, environ)


def find_file(path: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The file that is named, else `./icepack.yaml`, else the one in the user's configuration folder."""
    if path is not None:
        return _existing(cwd / path, "name another file, or write this one with `icepack init`")
    if named := environ.get(CONFIG_VARIABLE):
        return _existing(cwd / named, f"correct or unset the variable {CONFIG_VARIABLE}")
    usual = (cwd / FILE_NAME, user_folder("config", environ) / FILE_NAME)
    return next((candidate for candidate in usual if candidate.is_file()), None)


def _existing(path: Path, remedy: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"There is no configuration file {path}; {remedy}.")
    return path


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: _given(value) if isinstance(value, Mapping) else value for key, value in flags.items()}
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _merged(document: Document, environment: Environment, flags: dict[str, Any]) -> CompactionConfig:
    filled = {key: value for key, value in document.tree.items() if value is not None}
    sources = (
        InitSettingsSource(CompactionConfig, flags),
        environment.source,
        InitSettingsSource(CompactionConfig, filled),
    )
    try:
        return CompactionConfig(_build_sources=(sources, {}))  # type: ignore[call-arg]
    except ValidationError as error:
        origins = Origins(document, environment, environment.source(), flags)
        # The cause would print what was typed, and with it a secret.
        raise explained(error, CompactionConfig, origins) from None


def _completed(config: CompactionConfig, source: Path | None, environ: Mapping[str, str]) -> LoadedConfig:
    """What was left open is the embedded lake and the history in the user's folders."""
    lake = EmbeddedLake.of_user(environ)
    own = {LAKE: lake.properties}
    state = config.state.model_copy(update={"url": config.state.url or default_state_url(environ)})
    catalogs = config.catalogs if config.catalog or config.catalogs else own
    config = config.model_copy(update={"state": state, "catalogs": catalogs})
    is_embedded = config.catalogs == own and not config.catalog
    return LoadedConfig(config=config, source=source, lake=lake if is_embedded else None)
