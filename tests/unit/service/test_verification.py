"""The verification store while the state database is away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icepack.domain.verification import FileClass, NativeDisabled
from icepack.service.runs.verification_store import UNKNOWN, PatientVerificationStore
from icepack.store.backend import open_stores

from .parts import OTHER, TABLE, Flaky

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
OFF = NativeDisabled(table=TABLE, table_uuid="u", disabled_at=NOW, reason="price differs")
FILES = FileClass("7f3a", {})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Flaky]:
    stores = open_stores(f"sqlite:///{tmp_path / 'state.db'}")
    yield Flaky(stores.verification)
    stores.close()


@pytest.fixture
def store(database: Any) -> PatientVerificationStore:
    return PatientVerificationStore(database)


def check(store: PatientVerificationStore) -> None:
    store.record_check(TABLE, "u", [FILES], kernel_version="1", rows=1, checked_at=NOW)


def test_what_is_known_is_passed_on(store: PatientVerificationStore) -> None:
    check(store)
    store.disable_native(OFF)
    assert store.trusted_classes(TABLE, "u", "1") == {"7f3a"}
    assert store.last_checked_at(TABLE, "u") == NOW
    assert store.native_disabled(TABLE) == OFF
    assert store.native_disabled(OTHER) is None
    assert store.all_native_disabled() == [OFF]
    assert store.enable_native(TABLE)
    assert not store.enable_native(TABLE)


def test_without_a_database_nothing_is_trusted_and_native_is_off(
    store: PatientVerificationStore, database: Flaky
) -> None:
    check(store)
    database.away = True
    check(store)
    assert store.trusted_classes(TABLE, "u", "1") == frozenset()
    assert store.last_checked_at(TABLE, "u") is None
    unknown = store.native_disabled(TABLE)
    assert unknown is not None
    assert unknown.reason == UNKNOWN


def test_a_switch_off_outlives_an_outage(store: PatientVerificationStore, database: Flaky) -> None:
    database.away = True
    store.disable_native(OFF)
    assert store.native_disabled(TABLE) == OFF
    database.away = False
    store.close()
    assert database.real.native_disabled(TABLE) == OFF


def test_a_switch_off_that_is_not_written_can_be_taken_back(store: PatientVerificationStore, database: Flaky) -> None:
    database.fails_before["disable_native"] = 1
    store.disable_native(OFF)
    assert store.enable_native(TABLE)
    assert store.native_disabled(TABLE) is None
