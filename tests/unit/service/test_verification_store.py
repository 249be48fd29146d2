"""The verification store while the state database is unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.verification import FileClass, NativeDisabled
from icepack.service.runs.verification_store import DATABASE_UNAVAILABLE, BufferedVerificationStore
from icepack.store.backend import open_stores

from .fakes import OTHER, TABLE, FlakyStore

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
OFF = NativeDisabled(table=TABLE, table_uuid="u", disabled_at=NOW, reason="price differs")
FILES = FileClass("7f3a", {})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[FlakyStore]:
    stores = open_stores(f"sqlite:///{tmp_path / 'state.db'}")
    yield FlakyStore(stores.verification)
    stores.close()


@pytest.fixture
def store(database: Any) -> BufferedVerificationStore:
    return BufferedVerificationStore(database)


def check(store: BufferedVerificationStore) -> None:
    store.record_check(TABLE, "u", [FILES], kernel_version="1", rows=1, checked_at=NOW)


def test_calls_are_passed_on_to_the_database(store: BufferedVerificationStore) -> None:
    check(store)
    store.disable_native(OFF)
    assert store.trusted_classes(TABLE, "u", "1") == {"7f3a"}
    assert store.last_checked_at(TABLE, "u") == NOW
    assert store.native_disabled(TABLE) == OFF
    assert store.native_disabled(OTHER) is None
    assert store.all_native_disabled() == [OFF]
    assert store.enable_native(TABLE)
    assert not store.enable_native(TABLE)


def test_without_a_database_nothing_is_trusted_and_native_is_disabled(
    store: BufferedVerificationStore, database: FlakyStore
) -> None:
    check(store)
    database.unavailable = True
    check(store)
    assert store.trusted_classes(TABLE, "u", "1") == frozenset()
    assert store.last_checked_at(TABLE, "u") is None
    unknown = store.native_disabled(TABLE)
    assert unknown is not None
    assert unknown.reason == DATABASE_UNAVAILABLE


def test_disabling_survives_an_outage(store: BufferedVerificationStore, database: FlakyStore) -> None:
    database.unavailable = True
    store.disable_native(OFF)
    assert store.native_disabled(TABLE) == OFF
    database.unavailable = False
    store.close()
    assert database.real.native_disabled(TABLE) == OFF


def test_disabling_that_is_not_written_yet_can_be_undone(
    store: BufferedVerificationStore, database: FlakyStore
) -> None:
    database.fails_before["disable_native"] = 1
    store.disable_native(OFF)
    assert store.enable_native(TABLE)
    assert store.native_disabled(TABLE) is None
