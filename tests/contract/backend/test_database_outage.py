"""Outages of the database: every call raises a clear error, and everything works again afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from contract.postgres_server import PostgresServer
from contract.queue_harness import DAWN, DONE, LEASE, request
from contract.sample_runs import ODD, ORDERS
from icepack.domain.job import Claim, ClaimLost, JobProgress, JobState
from icepack.domain.ports.audit import AuditEvent
from icepack.domain.ports.history import RetentionPeriods
from icepack.errors import EnvironmentFault
from icepack.store.backend import Stores, open_stores
from icepack.store.queue.expired_claims import ExpiredClaims
from icepack.store.sql import postgres as postgres_module
from icepack.store.sql.prepared import PreparedStatement

SHORT_LEASE = timedelta(seconds=2)

Call = Callable[[Stores, Claim], object]
CALLS: dict[str, Call] = {
    "submit": lambda stores, _: stores.jobs.submit(request(ODD)),
    "claim": lambda stores, _: stores.jobs.claim("w", LEASE),
    "heartbeat": lambda stores, claim: stores.jobs.heartbeat(claim),
    "progress": lambda stores, claim: stores.jobs.progress(claim, JobProgress()),
    "finish": lambda stores, claim: stores.jobs.finish(claim, DONE),
    "fail": lambda stores, claim: stores.jobs.fail(claim, "x"),
    "hand back": lambda stores, claim: stores.jobs.hand_back(claim),
    "cancel": lambda stores, claim: stores.jobs.cancel(claim.job_id),
    "get": lambda stores, claim: stores.jobs.get(claim.job_id),
    "list": lambda stores, _: stores.jobs.list_jobs(),
    "events": lambda stores, claim: stores.jobs.events(claim.job_id),
    "counts": lambda stores, _: stores.jobs.counts(),
    "reap": lambda stores, _: stores.jobs.reap(),
    "now": lambda stores, _: stores.jobs.now(),
    "lock": lambda stores, _: stores.locks.acquire(ODD, "cli", LEASE),
    "locks": lambda stores, _: stores.locks.list_locks(),
    "break": lambda stores, _: stores.locks.break_lock(ODD),
    "begin": lambda stores, _: stores.cache.begin("sync", LEASE),
    "cache": lambda stores, _: stores.cache.state(),
    "tables": lambda stores, _: list(stores.cache.tables()),
    "statuses": lambda stores, _: stores.history.statuses(ODD),
    "audit": lambda stores, _: stores.audit.record(AuditEvent(at=DAWN, actor="a", action="b")),
    "trusted classes": lambda stores, _: stores.verification.trusted_classes(ODD, "uuid", "1"),
    "native off": lambda stores, _: stores.verification.all_native_disabled(),
    "enable native": lambda stores, _: stores.verification.enable_native(ODD),
    "prune": lambda stores, _: stores.retention.prune(RetentionPeriods()),
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A durable server that the tests may stop."""
    server = PostgresServer(durable=True)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def stores(server: PostgresServer) -> Iterator[Stores]:
    with server.database() as url:
        stores = open_stores(url)
        yield stores
        stores.close()


def _claim(stores: Stores) -> Claim:
    stores.jobs.submit(request(ORDERS))
    claim = stores.jobs.claim("w", LEASE)
    assert claim is not None
    return claim


def test_every_call_reports_the_outage_and_works_again_afterwards(server: PostgresServer, stores: Stores) -> None:
    claim = _claim(stores)
    secret = server.password
    server.stop("immediate")
    for name, call in CALLS.items():
        with pytest.raises(EnvironmentFault, match="could not be used") as caught:
            call(stores, claim)
        assert secret not in str(caught.value), name
    server.start()
    assert stores.jobs.heartbeat(claim) is False
    assert [lock.token for lock in stores.locks.list_locks()] == [claim.fence]
    stores.jobs.finish(claim, DONE)
    assert stores.jobs.get(claim.job_id).state is JobState.SUCCEEDED


def test_workers_that_retry_lose_nothing(server: PostgresServer, stores: Stores) -> None:
    """A write is stored completely or not at all and can be repeated; no worker loses a claim that it still renews."""
    for number in range(40):
        stores.jobs.submit(request(f"lake.sales.t{number}", max_attempts=9))
    over = threading.Event()
    faults: list[EnvironmentFault] = []
    losses: list[ClaimLost] = []

    def retry(call: Callable[[], Any]) -> Any:
        while True:
            try:
                return call()
            except EnvironmentFault as fault:
                faults.append(fault)
                time.sleep(0.1)

    def work(name: str) -> None:
        while not over.is_set():
            claim = retry(lambda: stores.jobs.claim(name, SHORT_LEASE))
            time.sleep(0.05)
            if claim is not None:
                finish(claim)

    def finish(claim: Claim) -> None:
        try:
            retry(lambda: stores.jobs.finish(claim, DONE))
        except ClaimLost as loss:
            losses.append(loss)

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    server.stop("immediate")
    time.sleep(0.3)
    server.start()
    reaper = ExpiredClaims(stores.jobs, SHORT_LEASE)
    deadline = time.monotonic() + 60
    while stores.jobs.counts()[JobState.SUCCEEDED] < 40 and time.monotonic() < deadline:
        reaper.tick()
        time.sleep(0.1)
    over.set()
    for thread in threads:
        thread.join()
    assert faults
    assert losses == []
    assert stores.jobs.counts()[JobState.SUCCEEDED] == 40
    assert stores.locks.list_locks() == []


def test_a_call_whose_reply_was_lost_can_be_repeated(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit succeeded, but its confirmation was lost."""
    claim = _claim(stores)
    original = PreparedStatement._run

    def run_and_disconnect(self: PreparedStatement, engine: Engine, *arguments: Any) -> Any:
        original(self, engine, *arguments)
        with closing(engine.raw_connection()) as connection:
            connection.driver_connection.close()
        return original(self, engine, *arguments)

    monkeypatch.setattr(PreparedStatement, "_run", run_and_disconnect)
    with pytest.raises(EnvironmentFault):
        stores.jobs.finish(claim, DONE)
    monkeypatch.undo()
    assert stores.jobs.get(claim.job_id).state is JobState.SUCCEEDED
    stores.jobs.finish(claim, DONE)
    assert [event.kind.value for event in stores.jobs.events(claim.job_id)] == ["submitted", "claimed", "succeeded"]


@pytest.mark.parametrize("idle_seconds", [0.0, 60.0])
def test_a_connection_that_died_while_idle_is_replaced(
    server: PostgresServer, stores: Stores, monkeypatch: pytest.MonkeyPatch, idle_seconds: float
) -> None:
    """Without an error if it was idle long enough to be pinged; otherwise the first call fails."""
    monkeypatch.setattr(postgres_module, "PING_AFTER_IDLE_SECONDS", idle_seconds)
    stores.jobs.now()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(others, (stores.engine.url.database,))
    if idle_seconds:
        with pytest.raises(EnvironmentFault):
            stores.jobs.now()
    assert stores.jobs.now() is not None
