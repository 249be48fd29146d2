"""The locks command."""

from __future__ import annotations

from datetime import timedelta

from icepack.domain.table import TableId
from icepack.store.backend import Stores

from .conftest import Call

ORDERS = TableId("lake", ("sales",), "orders")


def test_without_locks_it_says_so(call: Call, stores: Stores) -> None:
    assert "No table is locked" in call("locks").out


def test_it_shows_the_owner_of_each_lock(call: Call, stores: Stores) -> None:
    stores.locks.acquire(ORDERS, "cli:laptop:7", timedelta(seconds=60), "compact")
    assert "cli:laptop:7" in call("locks").out
    assert call("locks", "--format", "json").json["locks"][0]["owner"] == "cli:laptop:7"


def test_force_breaks_a_lock_and_is_audited(call: Call, stores: Stores) -> None:
    stores.locks.acquire(ORDERS, "cli:laptop:7", timedelta(seconds=60))
    assert "'cli:laptop:7'" in call("locks", "--force", "orders").out
    assert stores.locks.list_locks() == []
    assert [(event.action, event.subject) for event in stores.audit.entries()] == [("locks.break", str(ORDERS))]


def test_a_table_that_is_not_locked_is_a_usage_error(call: Call, stores: Stores) -> None:
    assert call("locks", "--force", "orders").code == 2


def test_a_run_on_a_locked_table_is_refused(call: Call, stores: Stores) -> None:
    stores.locks.acquire(ORDERS, "cli:laptop:7", timedelta(seconds=60), "compact")
    answer = call("run", "rewrite_manifests", "orders", "--format", "json")
    assert answer.code == 1
    assert answer.json["run"]["state"] == "refused"
    assert "is locked by 'cli:laptop:7'" in answer.json["run"]["message"]
