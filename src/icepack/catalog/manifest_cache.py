"""Caches decoded manifests; entries never become stale, because a manifest never changes."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol

log = logging.getLogger(__name__)


class ManifestCache(Protocol):
    """Stores decoded manifests as Arrow IPC bytes by key."""

    def get(self, keys: Sequence[str]) -> dict[str, bytes]: ...

    def put(self, bodies: dict[str, bytes]) -> None: ...


class MemoryManifestCache:
    """For tests and for machines without a writable cache folder."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {key: self._bodies[key] for key in keys if key in self._bodies}

    def put(self, bodies: dict[str, bytes]) -> None:
        self._bodies.update(bodies)


@contextmanager
def _log_cache_errors() -> Iterator[None]:
    """Logs database errors: a full disk or a long lock only makes reading slower, it must not make it fail."""
    try:
        yield
    except sqlite3.Error as exc:
        log.warning("manifest cache is not available: %s", exc)


class FileManifestCache:
    """A SQLite file in the user's cache folder, shared by all processes; evicts the oldest entries when it is full."""

    def __init__(self, path: Path, max_bytes: int = 1 << 30) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS manifests (key TEXT PRIMARY KEY, used_at INTEGER, size INTEGER, body BLOB)"
        )

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        with self._lock, _log_cache_errors():
            for start in range(0, len(keys), 500):
                chunk = keys[start : start + 500]
                placeholders = ",".join("?" * len(chunk))
                rows = self._connection.execute(f"SELECT key, body FROM manifests WHERE key IN ({placeholders})", chunk)
                found.update(rows.fetchall())
        return found

    def put(self, bodies: dict[str, bytes]) -> None:
        if not bodies:
            return
        with self._lock, _log_cache_errors(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT OR REPLACE INTO manifests VALUES (?, unixepoch(), ?, ?)",
                [(key, len(body), body) for key, body in bodies.items()],
            )
            self._evict_oldest()

    def _evict_oldest(self) -> None:
        (total,) = self._connection.execute("SELECT coalesce(sum(size), 0) FROM manifests").fetchone()
        if total > self._max_bytes:
            self._connection.execute(
                "DELETE FROM manifests WHERE key IN (SELECT key FROM manifests ORDER BY used_at LIMIT "
                "(SELECT count(*) / 4 + 1 FROM manifests))"
            )
