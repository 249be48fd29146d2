"""The real queue in a SQLite file, wrapped so that calls can be made to fail."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from icepack.service.worker import heartbeat
from icepack.store.backend import Stores, open_stores

from .fakes import FlakyStore


@pytest.fixture(autouse=True)
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes heartbeats frequent, no matter how long the lease is."""
    monkeypatch.setattr(heartbeat, "MAX_INTERVAL_SECONDS", 0.2)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("state") / "state.db"
    open_stores(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def stores(migrated: Path, tmp_path: Path) -> Iterator[Stores]:
    path = tmp_path / "state.db"
    shutil.copy(migrated, path)
    opened = open_stores(f"sqlite:///{path}")
    yield opened
    opened.close()


@pytest.fixture
def jobs(stores: Stores) -> FlakyStore:
    return FlakyStore(stores.jobs)


@pytest.fixture
def history(stores: Stores) -> FlakyStore:
    return FlakyStore(stores.history)


@pytest.fixture
def locks(stores: Stores) -> FlakyStore:
    return FlakyStore(stores.locks)
