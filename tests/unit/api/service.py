"""A service for tests: the application with a state database that contains tables, jobs and runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from starlette.testclient import TestClient

from contract.sample_tables import cached
from icepack.api.app import BASE_PATH, build_api
from icepack.api.auth.api_keys import generate_key
from icepack.config import load_config
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.actions import Compact, RewriteManifests
from icepack.domain.job import JobOutcome, JobRequest, JobState
from icepack.domain.ports.history import StatusPoint
from icepack.domain.run import RunRecord, RunState, compute_totals
from icepack.domain.table import TableId
from icepack.store.backend import Stores
from icepack.wiring import App, build_app

LEASE = timedelta(minutes=5)
ORDERS = TableId("lake", ("sales",), "orders")
ITEMS = TableId("lake", ("sales",), "items")
LOG = TableId("lake", ("ops",), "log")
ODD = TableId("other", ("a.b", "c"), 'odd / "näme"')
TABLES = (ORDERS, ITEMS, LOG, ODD)
SALES = (Scope("lake", "sales"),)


@dataclass
class Service:
    app: App
    client: TestClient

    @property
    def stores(self) -> Stores:
        return self.app.stores

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(BASE_PATH + path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Any:
        return self.client.post(BASE_PATH + path, json=body, **more)

    def put(self, path: str, body: Any, **more: Any) -> Any:
        return self.client.put(BASE_PATH + path, json=body, **more)

    def key(self, role: Role, scopes: tuple[Scope, ...] = (Scope(),), name: str = "", **facts: Any) -> dict[str, str]:
        """Creates an API key and returns its Authorization header."""
        made = generate_key()
        plain = {"id": made.id, "name": name or f"{role}-{made.id}", "role": role, "scopes": scopes}
        self.stores.keys.add(ApiKey(created_at=datetime.now(UTC), **{**plain, **facts}), made.digest)
        return {"Authorization": f"Bearer {made.text}"}

    def submit(self, table: TableId = ORDERS, **options: Any) -> UUID:
        return self.stores.jobs.submit(JobRequest(table=table, action=Compact(), **options)).job.id

    def finish_next(self, state: JobState = JobState.SUCCEEDED) -> UUID:
        claim = self.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        self.stores.jobs.finish(claim, JobOutcome(state=state, message="done"))
        return claim.job_id


def fill_cache(stores: Stores, tables: tuple[TableId, ...] = TABLES) -> None:
    found = [cached(table, files=40 + number) for number, table in enumerate(tables)]
    generation = stores.cache.begin("tests", LEASE)
    stores.cache.write(generation, found)
    stores.cache.swap(generation)
    now = datetime.now(UTC)
    points = [
        StatusPoint(table=item.table, observed_at=now, totals=compute_totals(item.status, item.health.score))
        for item in found
    ]
    stores.history.save_status(points)


def fill_queue(stores: Stores) -> None:
    for table in TABLES:
        stores.jobs.submit(JobRequest(table=table, action=RewriteManifests(), requester="tests"))
    now = datetime.now(UTC)
    for table in TABLES:
        run = RunRecord(
            job_id=UUID(int=hash(table) % 2**64),
            table=table,
            action=Compact(),
            state=RunState.SUCCEEDED,
            started_at=now,
            finished_at=now,
            realised_seconds=3.0,
        )
        stores.history.save(run)


@contextmanager
def serve(folder: Path, *, state_url: str | None = None, **settings: Any) -> Iterator[Service]:
    """Starts a service with an embedded lake that is never inspected."""
    environ = {"HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    overrides: dict[str, Any] = {"server": {"requests_per_second": 0}, **settings}
    if state_url:
        overrides["state"] = {"url": state_url}
    app = build_app(load_config(environ=environ, overrides=overrides, cwd=folder), environ=environ)
    fill_cache(app.stores)
    fill_queue(app.stores)
    with TestClient(build_api(app, stream_seconds=0.3), base_url="http://127.0.0.1") as client:
        yield Service(app, client)
    app.close()
