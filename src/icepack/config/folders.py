"""The default locations of configuration, embedded lake, state and cache."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

APPLICATION = "icepack"
LAKE = "lake"

FolderKind = Literal["config", "data", "state", "cache"]
_BELOW_HOME = {"config": ".config", "data": ".local/share", "state": ".local/state", "cache": ".cache"}


def user_folder(kind: FolderKind, environ: Mapping[str, str]) -> Path:
    """Returns the user's folder of this kind, from the given environment."""
    base = environ.get(f"XDG_{kind.upper()}_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / APPLICATION
    if sys.platform == "linux" and environ.get("HOME"):
        return Path(environ["HOME"]) / _BELOW_HOME[kind] / APPLICATION
    folders = platformdirs.PlatformDirs(APPLICATION, appauthor=False)
    return {
        "config": folders.user_config_path,
        "data": folders.user_data_path,
        "state": folders.user_state_path,
        "cache": folders.user_cache_path,
    }[kind]


def default_state_url(environ: Mapping[str, str]) -> str:
    return f"sqlite:///{user_folder('state', environ) / 'state.db'}"


@dataclass(frozen=True, slots=True)
class EmbeddedLake:
    """A lake in one folder: a SQLite catalog named `lake` and a warehouse beside it."""

    folder: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> EmbeddedLake:
        return cls(user_folder("data", environ) / LAKE)

    @property
    def database(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def properties(self) -> dict[str, str]:
        """The PyIceberg properties of the catalog."""
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": f"file://{self.warehouse}"}

    @property
    def exists(self) -> bool:
        return self.database.is_file()
