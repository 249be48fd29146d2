"""The stream of job changes, over a real connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from icepack.api.auth.api_keys import new_key
from icepack.client import ApiProblem, Client, News
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.actions import Compact
from icepack.domain.job import JobOutcome, JobProgress, JobRequest, JobState
from icepack.store.backend import Stores
from icepack.wiring import App

from .running import running
from .service import LEASE, LOG, ORDERS, SALES, TABLES


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, App]]:
    with running(tmp_path, auth={"enabled": True}) as found:
        yield found


def key(app: App, scopes: tuple[Scope, ...] = (Scope(),), name: str = "ann") -> str:
    made = new_key()
    facts = {"role": Role.VIEWER, "scopes": scopes, "created_at": datetime.now(UTC)}
    app.stores.keys.add(ApiKey(id=made.id, name=name, **facts), made.digest)
    return made.text


def finish_one(stores: Stores) -> None:
    for _ in TABLES:
        claim = stores.jobs.claim("w", LEASE)
        assert claim is not None
        stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))


def take(news: Iterator[News], until: str) -> list[News]:
    found = []
    for item in news:
        found.append(item)
        if item.document.get("kind") == until or item.kind == until:
            return found
    raise AssertionError(f"the stream ended before {until}: {found}")


def test_every_step_and_the_progress_are_told(served: tuple[str, App]) -> None:
    url, app = served
    finish_one(app.stores)
    with Client(url, key=key(app)) as client, client.stream() as news:
        job = app.stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
        assert [item.document["kind"] for item in take(news, "submitted")] == ["submitted"]
        claim = app.stores.jobs.claim("w", LEASE)
        assert claim is not None
        app.stores.jobs.progress(claim, JobProgress(partitions_completed=1, partitions_total=2))
        progress = take(news, "progress")[-1].document
        assert (progress["job_id"], progress["progress"]["partitions_completed"]) == (str(job.id), 1)
        app.stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED))
        assert take(news, "succeeded")[-1].document["job_id"] == str(job.id)


def test_nothing_is_missed_once_the_answer_began(served: tuple[str, App], monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the server takes to find out what is old news."""
    url, app = served
    newest_event = app.stores.board.newest_event

    def slow() -> int:
        time.sleep(0.5)
        return newest_event()

    monkeypatch.setattr(app.stores.board, "newest_event", slow)
    with Client(url, key=key(app)) as client, client.stream() as news:
        app.stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(), priority=1))
        assert next(news).document["kind"] == "submitted"


def test_one_can_resume_where_one_was(served: tuple[str, App]) -> None:
    url, app = served
    with Client(url, key=key(app)) as client:
        with client.stream(after=0) as news:
            first = [next(news) for _ in TABLES]
        assert [item.document["kind"] for item in first] == ["submitted"] * len(TABLES)
        with client.stream(after=first[1].number) as news:
            assert next(news).number == first[2].number


def test_only_ones_own_are_told(served: tuple[str, App]) -> None:
    url, app = served
    with Client(url, key=key(app, SALES)) as client, client.stream(after=0) as news:
        app.stores.jobs.submit(JobRequest(table=LOG, action=Compact()))
        app.stores.jobs.submit(JobRequest(table=ORDERS, action=Compact()))
        seen = [next(news) for _ in range(3)]
    assert {item.document["table_name"] for item in seen} == {"lake.sales.orders", "lake.sales.items"}


def test_a_stranger_hears_nothing(served: tuple[str, App]) -> None:
    with Client(served[0]) as client, pytest.raises(ApiProblem), client.stream():
        raise AssertionError("let in")


def test_a_session_may_listen_too(served: tuple[str, App]) -> None:
    url, app = served
    with Client(url) as client:
        client.open_session(key(app))
        with client.stream(after=0) as news:
            assert next(news).kind == "job"


def test_stopping_the_server_ends_the_stream(tmp_path: Path) -> None:
    ended = threading.Event()

    def listen(url: str) -> None:
        with Client(url) as client, client.stream(after=0) as news:
            for _ in news:
                begun.set()
        ended.set()

    begun = threading.Event()
    with running(tmp_path) as (url, _):
        listener = threading.Thread(target=listen, args=(url,))
        listener.start()
        assert begun.wait(30)
    assert ended.wait(30)
    listener.join()
