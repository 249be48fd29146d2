"""Value checks of the native rewrite per class of files, and tables where it is disabled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Engine, select

from icepack.domain.ports.history import PruneResult, RetentionPeriods
from icepack.domain.table import TableId
from icepack.domain.verification import FileClass, NativeDisabled
from icepack.store.admin.retention import SqlRetention
from icepack.store.schema import trusted_classes
from icepack.store.verification import SqlVerificationStore

from .queue_harness import DAWN, Queue, SettableClock
from .sample_runs import FILE_CLASS, MISMATCH, NOON, ODD, ORDERS

HOUR = timedelta(hours=1)
OTHER = FileClass("9b21", {"created_by": "DuckDB"})
UUID = "6f1d6c4a-0000-4000-8000-000000000000"
OFF = NativeDisabled(
    table=ODD, table_uuid=UUID, disabled_at=NOON, reason="größe differs \n雪", job_id=uuid4(), mismatch=MISMATCH
)


@pytest.fixture
def store(engine: Engine) -> SqlVerificationStore:
    return SqlVerificationStore(engine)


def check(
    store: SqlVerificationStore, *classes: FileClass, table: TableId = ORDERS, hours: int = 0, **facts: str
) -> None:
    values = {"table_uuid": UUID, "kernel_version": "1", **facts}
    uuid, version = values["table_uuid"], values["kernel_version"]
    store.record_check(table, uuid, classes, kernel_version=version, rows=10, checked_at=NOON + hours * HOUR)


class TestTrust:
    def test_a_class_that_was_never_compared_is_not_trusted(self, store: SqlVerificationStore) -> None:
        assert store.trusted_classes(ORDERS, UUID, "1") == frozenset()
        assert store.last_checked_at(ORDERS, UUID) is None

    def test_classes_that_were_compared_are_trusted(self, store: SqlVerificationStore) -> None:
        check(store, FILE_CLASS, OTHER, FILE_CLASS)
        assert store.trusted_classes(ORDERS, UUID, "1") == {FILE_CLASS.id, OTHER.id}

    def test_trust_holds_for_one_table_uuid_and_one_kernel_version(self, store: SqlVerificationStore) -> None:
        check(store, FILE_CLASS)
        assert store.trusted_classes(ODD, UUID, "1") == frozenset()
        assert store.trusted_classes(ORDERS, "recreated", "1") == frozenset()
        assert store.trusted_classes(ORDERS, UUID, "2") == frozenset()

    def test_the_last_check_counts_whatever_the_kernel_version_and_the_order(self, store: SqlVerificationStore) -> None:
        check(store, FILE_CLASS, hours=1)
        check(store, OTHER, hours=3, kernel_version="0")
        check(store, FILE_CLASS, hours=2)
        check(store, FILE_CLASS, hours=0)
        assert store.last_checked_at(ORDERS, UUID) == NOON + 3 * HOUR
        assert store.last_checked_at(ORDERS, "recreated") is None

    def test_checks_and_rows_of_a_class_add_up(self, store: SqlVerificationStore, engine: Engine) -> None:
        for hours in (1, 3, 2):
            check(store, FILE_CLASS, hours=hours)
        with engine.connect() as connection:
            row = connection.execute(select(trusted_classes)).one()
        assert (row.checks, row.rows_compared) == (3, 30)
        assert (row.first_checked_at, row.last_checked_at) == (NOON + HOUR, NOON + 3 * HOUR)
        assert row.description == FILE_CLASS.description

    def test_a_check_without_classes_is_not_recorded(self, store: SqlVerificationStore) -> None:
        check(store)
        assert store.last_checked_at(ORDERS, UUID) is None

    def test_concurrent_checks_are_all_recorded(self, store: SqlVerificationStore, engine: Engine) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda pair: check(store, *pair), [(FILE_CLASS, OTHER), (OTHER, FILE_CLASS)] * 10))
        with engine.connect() as connection:
            assert connection.scalars(select(trusted_classes.c.checks)).all() == [20, 20]

    def test_classes_that_were_not_compared_recently_are_deleted(
        self, store: SqlVerificationStore, queue: Queue
    ) -> None:
        check(store, FILE_CLASS)
        check(store, OTHER, hours=48)
        store.disable_native(OFF)
        clock = SettableClock(queue.engine)
        clock.shift(NOON + 72 * HOUR - DAWN)
        gone = SqlRetention(queue.engine, clock).prune(RetentionPeriods(classes=36 * HOUR))
        assert gone == PruneResult(classes=1)
        assert store.trusted_classes(ORDERS, UUID, "1") == {OTHER.id}
        assert store.native_disabled(ODD) == OFF


class TestNativeDisabled:
    def test_an_entry_is_read_as_it_was_stored(self, store: SqlVerificationStore) -> None:
        store.disable_native(OFF)
        assert store.native_disabled(ODD) == OFF
        assert store.native_disabled(ORDERS) is None

    def test_the_native_rewrite_can_be_disabled_manually(self, store: SqlVerificationStore) -> None:
        by_hand = NativeDisabled(table=ORDERS, table_uuid="", disabled_at=NOON, reason="")
        store.disable_native(by_hand)
        assert store.native_disabled(ORDERS) == by_hand

    def test_all_are_listed_by_table(self, store: SqlVerificationStore) -> None:
        entries = [replace(OFF, table=table) for table in (ODD, ORDERS)]
        for entry in entries:
            store.disable_native(entry)
        assert store.all_native_disabled() == sorted(entries, key=lambda entry: str(entry.table))

    def test_a_later_entry_replaces_an_earlier_one(self, store: SqlVerificationStore) -> None:
        store.disable_native(OFF)
        later = replace(OFF, disabled_at=NOON + HOUR, reason="again", mismatch=None, job_id=None)
        store.disable_native(later)
        assert store.all_native_disabled() == [later]

    def test_enabling_reports_whether_it_was_disabled(self, store: SqlVerificationStore) -> None:
        store.disable_native(OFF)
        assert store.enable_native(ODD)
        assert not store.enable_native(ODD)
        assert store.native_disabled(ODD) is None
