"""What the commands let one see from outside: figures, JSON logs, and a trace that goes from one to the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from observe.collector import collecting
from pyiceberg.catalog.sql import SqlCatalog

from icepack.domain.actions import RewriteManifests
from icepack.domain.job import Job, JobRequest, JobState
from icepack.domain.observability.trace import TraceContext
from icepack.domain.table import TableId
from icepack.store.backend import Stores, open_stores

from .conftest import Call

GONE = TableId("lake", ("sales",), "gone")
SPAWN = "import sys; from icepack.cli.main import main; main(sys.argv[1:])"


@pytest.fixture
def stores(lake: Path, tmp_path: Path) -> Stores:
    opened = open_stores(f"sqlite:///{tmp_path}/state/icepack/state.db")
    yield opened
    opened.close()


def _doomed(stores: Stores) -> Job:
    """A job that fails before it would need Spark."""
    return stores.jobs.submit(JobRequest(table=GONE, action=RewriteManifests(), max_attempts=1)).job


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_figures_can_be_printed(call: Call, stores: Stores) -> None:
    call("jobs", "submit", "compact", "orders")
    answer = call("metrics")
    assert answer.code == 0
    assert "\npending_compactions 1\n" in answer.out
    assert '\nicepack_queue_depth{action="compact",state="due"} 1\n' in answer.out


def test_to_push_without_a_collector_is_a_mistake(call: Call, stores: Stores) -> None:
    answer = call("metrics", "--push")
    assert answer.code == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in answer.err


def test_figures_are_pushed_until_the_process_is_told_to_stop(call: Call, stores: Stores, tmp_path: Path) -> None:
    call("jobs", "submit", "compact", "orders")
    with collecting() as collector:
        environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        command = [sys.executable, "-c", SPAWN, "--log-format", "json", "metrics", "--push"]
        process = subprocess.Popen(command, env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        started = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0, said
        assert "pushing figures" in started["message"]
        assert collector.metrics()["pending_compactions"].gauge.data_points[0].as_double == 1


def test_a_worker_logs_json_where_nobody_watches(call: Call, stores: Stores) -> None:
    job = _doomed(stores)
    answer = call("worker")
    assert answer.code == 1
    told = _lines(answer.err)
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    assert {(line["job_id"], line["table"], line["trace_id"]) for line in told} == {
        (str(job.id), str(GONE), context.trace_id)
    }
    assert told[-1]["message"].endswith("failed")


def test_a_worker_logs_plain_lines_when_asked_to(call: Call, stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    _doomed(stores)
    assert call("--log-format", "human", "worker").err.startswith("INFO job ")
    _doomed(stores)
    monkeypatch.setenv("ICEPACK_LOG_FORMAT", "human")
    assert call("worker").err.startswith("INFO job ")


def test_a_trace_leads_from_the_command_that_submits_to_the_worker(
    call: Call, stores: Stores, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        call("jobs", "submit", "rewrite_manifests", "orders", "--max-attempts", "1")
        SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db").drop_table("sales.orders")
        assert call("worker").code == 1, "it fails before it would need Spark"
    (job,) = stores.jobs.list_jobs().jobs
    found = {span.name: span for span in collector.spans()}
    assert set(found) == {"submit", "run", "planning"}
    assert {span.trace_id.hex() for span in found.values()} == {_trace_id(job)}
    assert found["run"].parent_span_id == found["submit"].span_id


def test_a_worker_s_spans_arrive_before_it_ends(call: Call, stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    job = _doomed(stores)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        assert call("worker").code == 1
    found = {span.name: span for span in collector.spans()}
    assert set(found) == {"run", "planning"}
    assert {span.trace_id.hex() for span in found.values()} == {_trace_id(job)}
    assert found["planning"].parent_span_id == found["run"].span_id
    assert "gone" in found["run"].status.message
    assert stores.jobs.get(job.id).state is JobState.FAILED


def _trace_id(job: Job) -> str:
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    return context.trace_id
