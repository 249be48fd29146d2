"""Finds promtool, or unpacks it into a cache folder without installing anything on the system."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

UNPACKED = user_cache_path("icepack-tests") / "prometheus"


class PromtoolMissing(Exception):
    pass


def find_or_unpack() -> Path:
    found = _find()
    if found is None and shutil.which("apt-get") and shutil.which("dpkg"):
        _unpack()
        found = _find()
    if found is None:
        raise PromtoolMissing(
            "promtool, which checks the rules, was not found. "
            "Install it (Debian: apt-get install prometheus) or put it on PATH."
        )
    return found


def _find() -> Path | None:
    on_path = shutil.which("promtool")
    unpacked = UNPACKED / "usr" / "bin" / "promtool"
    return Path(on_path) if on_path else unpacked if unpacked.exists() else None


def _unpack() -> None:
    """Unpacks it once for all test runs; it is moved into place as a whole, so that no run finds a part of it."""
    UNPACKED.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{UNPACKED}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _find() is None:
            with tempfile.TemporaryDirectory(dir=UNPACKED.parent) as folder:
                _download(Path(folder))


def _download(folder: Path) -> None:
    if not _apt_get("download", "prometheus", folder=folder):
        _apt_get("update", folder=folder)
        _apt_get("download", "prometheus", folder=folder)
    for package in folder.glob("prometheus_*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "tree"], check=True)
        shutil.rmtree(UNPACKED, ignore_errors=True)
        (folder / "tree").rename(UNPACKED)


def _apt_get(*arguments: str, folder: Path) -> bool:
    # Run by root, apt would download as another user, who cannot write into the folder.
    options = ("-q", "-o", "APT::Sandbox::User=root", "-o", "DPkg::Lock::Timeout=300")
    return subprocess.run(["apt-get", *options, *arguments], cwd=folder, check=False).returncode == 0
