"""How the service is set up, for people's eyes: never a secret."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from icepack import __version__
from icepack.config import CompactionConfig, masked, scheduler_zone
from icepack.domain.access import Scopes, fits

SECTIONS = ("compaction", "scheduler", "orchestrator", "health_sync", "worker", "retry", "cost")
_LIBRARIES = {"spark": "pyspark", "pyiceberg": "pyiceberg", "pyarrow": "pyarrow"}


class SettingsView:
    def __init__(self, config: CompactionConfig, iceberg: str) -> None:
        self._config = config
        self._shown = masked(config)
        self._versions = {"icepack": __version__, "python": sys.version.split()[0], "iceberg": iceberg, **_libraries()}

    def read(self, scopes: Scopes) -> dict[str, Any]:
        """What everybody may know; of catalogs, those in which there may be a table for them."""
        policy = self._shown["policy"]
        return {
            "versions": self._versions,
            "catalogs": [
                _catalog(name, properties)
                for name, properties in sorted(self._shown["catalogs"].items())
                if any(fits(scope.catalog, name) for scope in scopes)
            ],
            "timezone": str(scheduler_zone(self._config)),
            "windows": list(policy.get("windows") or ()),
            "sections": {name: self._shown[name] for name in SECTIONS if name in self._shown},
            "authentication": {"required": self._config.auth.is_on, "oidc_issuer": self._config.auth.oidc.issuer},
        }

    def state(self) -> dict[str, Any]:
        url = str(self._shown["state"]["url"])
        kind = "sqlite" if url.startswith("sqlite") else "postgresql"
        return {"kind": kind, "url": url}


def _libraries() -> dict[str, str]:
    return {name: found for name, package in _LIBRARIES.items() if (found := _version(package))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _catalog(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Only what says where it is: other properties may be anything."""
    return {
        "name": name,
        "type": properties.get("type") or "",
        "uri": properties.get("uri"),
        "warehouse": properties.get("warehouse"),
    }
