"""One trace per job, from its submission to its commit, in the collector and in the job's own story."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from icepack.domain.actions import Compact
from icepack.domain.job import Job, JobEventKind, JobRequest, JobState
from icepack.domain.observability.trace import Phase, TraceContext
from icepack.domain.ports.engine import Progress
from icepack.domain.run import RunState
from icepack.errors import EngineFault, Refused
from icepack.logs import JsonFormatter
from icepack.service.maintenance import RunRequest
from icepack.service.worker.context import WorkEnd
from icepack.service.worker.worker import Worker
from icepack.store.backend import Stores
from icepack.store.jobs import SqlJobStore
from icepack.telemetry.spans import SpanExport
from icepack.tracing import Tracer

from .parts import TABLE, Flaky, Runs, desk, fail, submit, succeed, through
from .test_maintenance import Table, commit, run

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def phases(request: RunRequest) -> None:
    for phase in Phase:
        request.phase(phase)


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(memory: InMemorySpanExporter) -> Tracer:
    return Tracer(SpanExport(memory, SimpleSpanProcessor(memory)))


@pytest.fixture
def traced(stores: Stores, tracer: Tracer) -> Flaky:
    return Flaky(SqlJobStore(stores.engine, tracer=tracer))


def spans(memory: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in memory.get_finished_spans()}


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def story(jobs: Flaky, job: Job) -> list[dict[str, Any]]:
    events = jobs.real.events(job.id)
    return [dict(event.details) for event in events if event.kind is JobEventKind.SPAN]


def test_one_trace_leads_from_the_submission_to_the_commit(
    traced: Flaky, history: Flaky, tracer: Tracer, memory: InMemorySpanExporter
) -> None:
    job = submit(traced)
    ran = Worker(desk(traced, history, Runs(through(phases, succeed)), tracer=tracer))
    assert ran.work_once() is WorkEnd.SUCCEEDED
    found = spans(memory)
    assert set(found) == {"submit", "run", "planning", "execution", "commit"}
    assert len({span.context.trace_id for span in found.values() if span.context}) == 1
    assert parent_of(found["submit"]) is None
    assert parent_of(found["run"]) == id_of(found["submit"])
    assert {parent_of(found[phase]) for phase in Phase} == {id_of(found["run"])}
    told = dict(found["run"].attributes or {})
    assert (told["icepack.job_id"], told["icepack.table"], told["icepack.attempt"]) == (str(job.id), str(TABLE), 1)
    assert (told["icepack.state"], told["icepack.bytes_written"]) == ("succeeded", 25)


def test_a_caller_s_trace_goes_on(traced: Flaky, history: Flaky, tracer: Tracer, memory: InMemorySpanExporter) -> None:
    job = traced.real.submit(JobRequest(table=TABLE, action=Compact(), trace_context=CALLER)).job
    assert job.trace_context == CALLER
    Worker(desk(traced, history, Runs(succeed), tracer=tracer)).work_once()
    caller = TraceContext.parse(CALLER)
    assert caller is not None
    found = spans(memory)
    assert {span.context.trace_id for span in found.values() if span.context} == {int(caller.trace_id, 16)}
    assert parent_of(found["submit"]) == parent_of(found["run"]) == int(caller.span_id, 16)


def test_every_job_has_a_trace_without_anybody_to_tell(jobs: Flaky, history: Flaky) -> None:
    job = submit(jobs, trace_context="no traceparent")
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    Worker(desk(jobs, history, Runs(through(phases, succeed)))).work_once()
    told = story(jobs, job)
    assert [span["name"] for span in told] == ["run", "planning", "execution", "commit"]
    assert {span["context"]["trace_id"] for span in told} == {context.trace_id}
    assert told[0]["parent_id"] == context.span_id
    assert {span["parent_id"] for span in told[1:]} == {told[0]["context"]["span_id"]}
    assert all(span["started_at"] <= span["ended_at"] for span in told)


def test_each_attempt_has_a_run_of_its_own_in_the_trace(jobs: Flaky, history: Flaky) -> None:
    job = submit(jobs)
    deeds = Runs(fail(), succeed)
    tried = Worker(desk(jobs, history, deeds, retry_delay=timedelta(0)))
    assert [tried.work_once(), tried.work_once()] == [WorkEnd.RETURNED, WorkEnd.SUCCEEDED]
    runs = [span for span in story(jobs, job) if span["name"] == "run"]
    assert [span["attributes"]["icepack.attempt"] for span in runs] == [1, 2]
    assert [span["failure"] for span in runs] == ["It broke.", ""]
    assert len({span["context"]["trace_id"] for span in runs}) == 1


def test_a_refused_job_failed_while_it_was_planned(jobs: Flaky, history: Flaky) -> None:
    def refuse(_: RunRequest) -> RunRequest:
        raise Refused("Too dear.")

    job = submit(jobs)
    assert Worker(desk(jobs, history, Runs(succeed), prepare=refuse)).work_once() is WorkEnd.FAILED
    assert [(span["name"], span["failure"]) for span in story(jobs, job)] == [
        ("run", "Too dear."),
        ("planning", "Too dear."),
    ]
    assert jobs.real.get(job.id).details["error"] == "Refused"


def test_a_trace_that_cannot_be_written_does_not_fail_the_job(jobs: Flaky, history: Flaky) -> None:
    job = submit(jobs)
    jobs.fails_before["trace"] = 1
    assert Worker(desk(jobs, history, Runs(succeed))).work_once() is WorkEnd.SUCCEEDED
    assert jobs.real.get(job.id).state is JobState.SUCCEEDED
    assert story(jobs, job) == []


def test_an_end_that_is_told_twice_is_known_again_behind_its_spans(jobs: Flaky, history: Flaky) -> None:
    job = submit(jobs)
    jobs.fails_after["finish"] = 1
    assert Worker(desk(jobs, history, Runs(through(phases, succeed)))).work_once() is WorkEnd.SUCCEEDED
    assert jobs.calls.count("finish") == 2
    assert len(story(jobs, job)) == 4


def test_what_the_worker_logs_names_job_table_and_trace(
    jobs: Flaky, history: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[dict[str, Any]] = []
    formatter = JsonFormatter(str)

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(formatter.format(record)))

    handler = Collecting()
    logging.getLogger("icepack").addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, "icepack"):
            job = submit(jobs)
            Worker(desk(jobs, history, Runs(succeed))).work_once()
    finally:
        logging.getLogger("icepack").removeHandler(handler)
    told = [line for line in lines if "job_id" in line]
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    assert len(told) >= 2
    assert {(line["job_id"], line["table"], line["trace_id"]) for line in told} == {
        (str(job.id), str(TABLE), context.trace_id)
    }


def test_a_run_says_which_phase_it_is_in() -> None:
    entered: list[Phase] = []
    assert run(Table(), phase=entered.append).state is RunState.SUCCEEDED
    assert entered == [Phase.PLANNING, Phase.EXECUTION, Phase.COMMIT]


def test_the_commit_begins_when_the_last_group_is_written() -> None:
    entered: list[Phase] = []
    seen: list[list[Phase]] = []

    def write(context: Any) -> None:
        for done in (1, 2):
            context.progress(Progress(done=done, total=2, groups_done=done, groups=2))
            seen.append(list(entered))

    run(Table(deed=write), phase=entered.append)
    assert [phases[-1] for phases in seen] == [Phase.EXECUTION, Phase.COMMIT]


def test_a_run_that_fails_ends_in_the_phase_in_which_it_failed() -> None:
    entered: list[Phase] = []

    def fail(context: Any) -> None:
        raise EngineFault("The storage is gone.")

    assert run(Table(deed=fail), phase=entered.append).state is RunState.FAILED
    assert entered[-1] is Phase.EXECUTION


def test_a_run_that_was_done_before_only_looks_at_its_commits() -> None:
    entered: list[Phase] = []
    run(Table(commit(1)), attempt=2, phase=entered.append)
    assert Phase.EXECUTION not in entered


def test_the_record_names_the_kind_of_error() -> None:
    assert run(Table(commit(1, added_records=39)), attempt=2).error == "RowsChanged"
    assert run(Table()).error == ""
