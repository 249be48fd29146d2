"""A real store in SQLite, a fake clock and a fake advisor."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from icepack.store.backend import Stores, open_stores

from .fakes import NOON, FakeAdvisor, FakeClock

settings.register_profile("icepack", deadline=None, database=None, max_examples=60)
settings.load_profile("icepack")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests away from the files of the user."""
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ICEPACK_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database with its schema; copying it is faster than migrating again."""
    path = tmp_path_factory.mktemp("state") / "state.db"
    open_stores(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def stores(migrated: Path, tmp_path: Path) -> Iterator[Stores]:
    shutil.copy(migrated, tmp_path / "state.db")
    opened = open_stores(f"sqlite:///{tmp_path}/state.db")
    yield opened
    opened.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def advisor(clock: FakeClock) -> FakeAdvisor:
    return FakeAdvisor(clock)
