"""Finds the programs of PostgreSQL, and installs them if the tests run as root on Debian."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

# The oldest supported version of PostgreSQL.
MIN_VERSION = 15
CLUSTER_SETTINGS = Path("/etc/postgresql-common/createcluster.conf")
INSTALL_LOCK = Path("/var/lock/icepack-postgres-install")


class PostgresMissing(Exception):
    pass


def find_or_install() -> Path:
    """The folder with initdb and pg_ctl."""
    found = find_programs()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install()
        found = find_programs()
    if found is None:
        raise PostgresMissing(
            f"The contract tests need PostgreSQL {MIN_VERSION} or later, but no initdb was found. "
            "Install it (Debian: apt-get install postgresql) or put its bin folder on PATH."
        )
    return found


def find_programs() -> Path | None:
    on_path = shutil.which("initdb")
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    candidates = [Path(on_path).resolve().parent] if on_path else []
    return next((folder for folder in (*candidates, *packaged) if _is_new_enough(folder)), None)


def _is_new_enough(folder: Path) -> bool:
    if not all((folder / program).exists() for program in ("initdb", "pg_ctl", "postgres")):
        return False
    output = subprocess.run([folder / "initdb", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\) (\d+)", output)
    return found is not None and int(found[1]) >= MIN_VERSION


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdecimal() else 0


def _install() -> None:
    """Install the packages once for all concurrent test runs, without starting a server."""
    with INSTALL_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_programs() is None:
            _disable_main_cluster()
            if not _apt_get("install", "-y", "--no-install-recommends", "postgresql"):
                _apt_get("update")
                _apt_get("install", "-y", "--no-install-recommends", "postgresql")


def _disable_main_cluster() -> None:
    if not CLUSTER_SETTINGS.exists():
        CLUSTER_SETTINGS.parent.mkdir(parents=True, exist_ok=True)
        CLUSTER_SETTINGS.write_text("create_main_cluster = false\n")


def _apt_get(*arguments: str) -> bool:
    keep_settings = ("-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=300")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "UCF_FORCE_CONFFOLD": "1"}
    done = subprocess.run(["apt-get", "-q", *keep_settings, *arguments], env=environment, check=False)
    return done.returncode == 0
