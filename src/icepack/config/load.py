"""Loads the configuration from file, environment variables and flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import InitSettingsSource

from icepack.config.environment import CONFIG_VARIABLE, EnvironmentSettings, read_environment
from icepack.config.error_messages import SettingSources, describe_error
from icepack.config.folders import LAKE, EmbeddedLake, default_state_url, user_folder
from icepack.config.settings import CompactionConfig
from icepack.config.yaml_document import YamlDocument, read_document
from icepack.errors import ConfigError, UsageError

FILE_NAME = "icepack.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """The configuration and the file it came from; `lake` is the embedded lake if it is the only catalog."""

    config: CompactionConfig
    source: Path | None
    lake: EmbeddedLake | None

    @property
    def embedded(self) -> bool:
        return self.lake is not None

    @property
    def lake_exists(self) -> bool:
        """False only if the embedded lake has not been created yet."""
        return self.lake is None or self.lake.exists

    def require_lake(self) -> str:
        """Raises UsageError if there is no lake to work on."""
        if not self.lake_exists:
            raise UsageError(
                "There is no lake yet.",
                "`icepack demo` creates a sample lake; `icepack init` writes an icepack.yaml for your own catalog.",
            )
        return "exists"


def load_config(
    path: Path | None = None,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, Any] = {},
    cwd: Path,
) -> LoadedConfig:
    """Merges defaults < file < `ICEPACK_*` variables < overrides (flags; None means that a flag was not given)."""
    source = find_file(path, environ, cwd)
    document = read_document(source, environ) if source else YamlDocument()
    catalogs = document.tree.get("catalogs")
    environment = read_environment(CompactionConfig, environ, catalogs if isinstance(catalogs, dict) else ())
    config = _merge_sources(document, environment, _drop_unset(overrides))
    return _apply_user_defaults(config.with_secrets(document.secrets), source, environ)


def find_file(path: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Returns the given file, else `./icepack.yaml`, else the one in the user's configuration folder."""
    if path is not None:
        return _require_file(cwd / path, "pass another file, or create this one with `icepack init`")
    if named := environ.get(CONFIG_VARIABLE):
        return _require_file(cwd / named, f"correct or unset the variable {CONFIG_VARIABLE}")
    defaults = (cwd / FILE_NAME, user_folder("config", environ) / FILE_NAME)
    return next((candidate for candidate in defaults if candidate.is_file()), None)


def _require_file(path: Path, remedy: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"There is no configuration file {path}; {remedy}.")
    return path


def _drop_unset(flags: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: _drop_unset(value) if isinstance(value, Mapping) else value for key, value in flags.items()}
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _merge_sources(document: YamlDocument, environment: EnvironmentSettings, flags: dict[str, Any]) -> CompactionConfig:
    filled = {key: value for key, value in document.tree.items() if value is not None}
    sources = (
        InitSettingsSource(CompactionConfig, flags),
        environment.source,
        InitSettingsSource(CompactionConfig, filled),
    )
    try:
        return CompactionConfig(_build_sources=(sources, {}))  # type: ignore[call-arg]
    except ValidationError as error:
        setting_sources = SettingSources(document, environment, environment.source(), flags)
        # Without the cause: its text quotes the input, which may contain a secret.
        raise describe_error(error, CompactionConfig, setting_sources) from None


def _apply_user_defaults(config: CompactionConfig, source: Path | None, environ: Mapping[str, str]) -> LoadedConfig:
    """Uses the embedded lake and the state database in the user's folders for what is not configured."""
    lake = EmbeddedLake.of_user(environ)
    own = {LAKE: lake.properties}
    state = config.state.model_copy(update={"url": config.state.url or default_state_url(environ)})
    catalogs = config.catalogs if config.catalog or config.catalogs else own
    config = config.model_copy(update={"state": state, "catalogs": catalogs})
    is_embedded = config.catalogs == own and not config.catalog
    return LoadedConfig(config=config, source=source, lake=lake if is_embedded else None)
