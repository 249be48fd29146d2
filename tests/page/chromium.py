"""Finds Chromium, or installs it if the tests run as root on Debian."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL_LOCK = Path("/var/lock/icepack-chromium-install")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)


class ChromiumMissing(Exception):
    pass


def find_or_install() -> str:
    found = find()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install()
        found = find()
    if found is None:
        raise ChromiumMissing(
            "The page is tested in Chromium, which was not found. "
            "Install it (Debian: apt-get install chromium) or name it in ICEPACK_CHROMIUM."
        )
    return found


def find() -> str | None:
    named = os.environ.get("ICEPACK_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def _install() -> None:
    """Installs Chromium once, even if several test runs ask for it at the same time."""
    with INSTALL_LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find() is None and not _apt_get("install", "-y", "--no-install-recommends", "chromium"):
            _apt_get("update")
            _apt_get("install", "-y", "--no-install-recommends", "chromium")


def _apt_get(*arguments: str) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode == 0
