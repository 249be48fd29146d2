"""The stream of job changes, over a real connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.server_thread import run_server
from api.service import LEASE, LOG, ORDERS, SALES, TABLES
from icepack.api.auth.api_keys import generate_key
from icepack.client import ApiProblem, Client, ServerEvent
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.actions import Compact
from icepack.domain.job import JobOutcome, JobProgress, JobRequest, JobState
from icepack.store.backend import Stores
from icepack.wiring import App


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, App]]:
    with run_server(tmp_path, auth={"enabled": True}) as found:
        yield found


def key(app: App, scopes: tuple[Scope, ...] = (Scope(),), name: str = "ann") -> str:
    made = generate_key()
    facts = {"role": Role.VIEWER, "scopes": scopes, "created_at": datetime.now(UTC)}
    app.stores.keys.add(ApiKey(id=made.id, name=name, **facts), made.digest)
    return made.text


def finish_all(stores: Stores) -> None:
    for _ in TABLES:
        claim = stores.jobs.claim("w", LEASE)
        assert claim is not None
        stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))


def read_until(events: Iterator[ServerEvent], until: str) -> list[ServerEvent]:
    found = []
    for event in events:
        found.append(event)
        if event.document.get("kind") == until or event.kind == until:
            return found
    raise AssertionError(f"the stream ended before {until}: {found}")


def test_events_and_progress_are_streamed(served: tuple[str, App]) -> None:
    url, app = served
    finish_all(app.stores)
    with Client(url, key=key(app)) as client, client.stream() as events:
        job = app.stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
        assert [event.document["kind"] for event in read_until(events, "submitted")] == ["submitted"]
        claim = app.stores.jobs.claim("w", LEASE)
        assert claim is not None
        app.stores.jobs.progress(claim, JobProgress(partitions_completed=1, partitions_total=2))
        event = read_until(events, "progress")[-1]
        assert event.number is None
        progress = event.document
        assert (progress["job_id"], progress["progress"]["partitions_completed"]) == (str(job.id), 1)
        app.stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))
        assert read_until(events, "succeeded")[-1].document["job_id"] == str(job.id)


def test_no_event_is_missed_after_the_response_started(
    served: tuple[str, App], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the server takes long to find the newest event."""
    url, app = served
    newest_event = app.stores.fleet_queries.newest_event

    def slow() -> int:
        time.sleep(0.5)
        return newest_event()

    monkeypatch.setattr(app.stores.fleet_queries, "newest_event", slow)
    with Client(url, key=key(app)) as client, client.stream() as events:
        app.stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(), priority=1))
        assert next(events).document["kind"] == "submitted"


def test_stream_resumes_after_an_event(served: tuple[str, App]) -> None:
    url, app = served
    with Client(url, key=key(app)) as client:
        with client.stream(after=0) as events:
            first = [next(events) for _ in TABLES]
        assert [event.document["kind"] for event in first] == ["submitted"] * len(TABLES)
        with client.stream(after=first[1].number) as events:
            assert next(events).number == first[2].number


def test_events_of_visible_tables_only(served: tuple[str, App]) -> None:
    url, app = served
    with Client(url, key=key(app, SALES)) as client, client.stream(after=0) as events:
        app.stores.jobs.submit(JobRequest(table=LOG, action=Compact()))
        app.stores.jobs.submit(JobRequest(table=ORDERS, action=Compact()))
        seen = [next(events) for _ in range(3)]
    assert {event.document["table_name"] for event in seen} == {"lake.sales.orders", "lake.sales.items"}


def test_stream_requires_authentication(served: tuple[str, App]) -> None:
    with Client(served[0]) as client, pytest.raises(ApiProblem), client.stream():
        raise AssertionError("the stream was opened")


def test_session_cookie_opens_the_stream(served: tuple[str, App]) -> None:
    url, app = served
    with Client(url) as client:
        client.open_session(key(app))
        with client.stream(after=0) as events:
            assert next(events).kind == "job"


def test_stopping_the_server_ends_the_stream(tmp_path: Path) -> None:
    ended = threading.Event()

    def read_stream(url: str) -> None:
        with Client(url) as client, client.stream(after=0) as events:
            for _ in events:
                started.set()
        ended.set()

    started = threading.Event()
    with run_server(tmp_path) as (url, _):
        reader = threading.Thread(target=read_stream, args=(url,))
        reader.start()
        assert started.wait(30)
    assert ended.wait(30)
    reader.join()
