"""Metrics, JSON logs, and traces from the submission to the worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from observe.collector import run_collector
from pyiceberg.catalog.sql import SqlCatalog

from icepack.domain.actions import RewriteManifests
from icepack.domain.job import Job, JobRequest, JobState
from icepack.domain.observability.trace import TraceContext
from icepack.domain.table import TableId
from icepack.store.backend import Stores

from .conftest import Call

GONE = TableId("lake", ("sales",), "gone")
SPAWN = "import sys; from icepack.cli.main import main; main(sys.argv[1:])"


def _submit_failing_job(stores: Stores) -> Job:
    """Submits a job that fails before it needs Spark."""
    return stores.jobs.submit(JobRequest(table=GONE, action=RewriteManifests(), max_attempts=1)).job


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_metrics_are_printed(call: Call, stores: Stores) -> None:
    call("jobs", "submit", "compact", "orders")
    answer = call("metrics")
    assert answer.code == 0
    assert "\npending_compactions 1.0\n" in answer.out
    assert '\nicepack_queue_depth{action="compact",state="due"} 1.0\n' in answer.out


def test_pushing_without_a_collector_is_a_usage_error(call: Call, stores: Stores) -> None:
    answer = call("metrics", "--push")
    assert answer.code == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in answer.err


def test_metrics_are_pushed_until_the_process_is_stopped(call: Call, stores: Stores, tmp_path: Path) -> None:
    call("jobs", "submit", "compact", "orders")
    with run_collector() as collector:
        environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        command = [sys.executable, "-c", SPAWN, "--log-format", "json", "metrics", "--push"]
        process = subprocess.Popen(command, env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        started = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        output = process.communicate(timeout=60)[1]
        assert process.returncode == 0, output
        assert "pushing metrics" in started["message"]
        assert collector.metrics()["pending_compactions"].gauge.data_points[0].as_double == 1


def test_a_worker_logs_json_without_a_terminal(call: Call, stores: Stores) -> None:
    job = _submit_failing_job(stores)
    answer = call("worker")
    assert answer.code == 1
    lines = _lines(answer.err)
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    assert {(line["job_id"], line["table"], line["trace_id"]) for line in lines} == {
        (str(job.id), str(GONE), context.trace_id)
    }
    assert lines[-1]["message"].endswith("failed")


def test_a_worker_logs_plain_lines_with_the_human_format(
    call: Call, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    _submit_failing_job(stores)
    assert call("--log-format", "human", "worker").err.startswith("INFO job ")
    _submit_failing_job(stores)
    monkeypatch.setenv("ICEPACK_LOG_FORMAT", "human")
    assert call("worker").err.startswith("INFO job ")


def test_the_worker_continues_the_trace_of_the_submission(
    call: Call, stores: Stores, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        call("jobs", "submit", "rewrite_manifests", "orders", "--max-attempts", "1")
        SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db").drop_table("sales.orders")
        assert call("worker").code == 1, "it fails before it needs Spark"
    (job,) = stores.jobs.list_jobs().jobs
    found = {span.name: span for span in collector.spans()}
    assert set(found) == {"submit", "run", "planning"}
    assert {span.trace_id.hex() for span in found.values()} == {_trace_id(job)}
    assert found["run"].parent_span_id == found["submit"].span_id


def test_the_spans_of_a_worker_arrive_before_it_exits(
    call: Call, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _submit_failing_job(stores)
    with run_collector() as collector:
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
