"""Presents the settings of the service and the results of its checks as JSON, with secrets masked."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from icepack import __version__
from icepack.api.doctor_runner import DoctorRunner
from icepack.config import CompactionConfig, mask_config, scheduler_timezone
from icepack.domain.access import Scopes, matches_glob
from icepack.domain.serialization import to_json

SECTIONS = ("compaction", "scheduler", "orchestrator", "health_sync", "worker", "retry", "cost")
_LIBRARIES = {"spark": "pyspark", "pyiceberg": "pyiceberg", "pyarrow": "pyarrow"}


class SettingsPresenter:
    def __init__(self, config: CompactionConfig, iceberg_version: str) -> None:
        self._config = config
        self._masked = mask_config(config)
        self._versions = {
            "icepack": __version__,
            "python": sys.version.split()[0],
            "iceberg": iceberg_version,
            **_find_library_versions(),
        }

    def present_settings(self, scopes: Scopes) -> dict[str, Any]:
        """Presents what every caller may see; catalogs only if the caller's scopes may cover a table in them."""
        policy = self._masked["policy"]
        return {
            "versions": self._versions,
            "catalogs": [
                _present_catalog(name, properties)
                for name, properties in sorted(self._masked["catalogs"].items())
                if any(matches_glob(scope.catalog, name) for scope in scopes)
            ],
            "timezone": str(scheduler_timezone(self._config)),
            "windows": list(policy.get("windows") or ()),
            "sections": {name: self._masked[name] for name in SECTIONS if name in self._masked},
            "authentication": {"required": self._config.auth.is_on, "oidc_issuer": self._config.auth.oidc.issuer},
        }

    def present_state(self) -> dict[str, Any]:
        url = str(self._masked["state"]["url"])
        kind = "sqlite" if url.startswith("sqlite") else "postgresql"
        return {"kind": kind, "url": url}


def present_checks(doctor: DoctorRunner) -> dict[str, Any]:
    is_running = doctor.is_running
    checks = [{**to_json(result.check), "checked_at": result.at} for result in doctor.read_results()]
    return {"running": is_running, "checks": checks}


def _find_library_versions() -> dict[str, str]:
    return {name: found for name, package in _LIBRARIES.items() if (found := _find_version(package))}


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _present_catalog(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Presents only the type and location: other properties may contain secrets."""
    return {
        "name": name,
        "type": properties.get("type") or "",
        "uri": properties.get("uri"),
        "warehouse": properties.get("warehouse"),
    }
