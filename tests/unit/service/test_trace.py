"""One trace per job, from its submission to its commit, in the collector and in the job's events."""

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
from icepack.domain.run import RunRecord, RunState
from icepack.errors import EngineFault, Refused
from icepack.logs import JsonFormatter
from icepack.service.runs.request import RunRequest
from icepack.service.worker.job_execution import WorkResult
from icepack.service.worker.worker import Worker
from icepack.store.backend import Stores
from icepack.store.jobs import SqlJobStore
from icepack.telemetry.spans import SpanExport
from icepack.tracing import Tracer

from .fakes import TABLE, FlakyStore, ScriptedRunner, build_job_runner, fail, run_steps, submit, succeed
from .test_maintenance import FakeTable, commit, run

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def enter_all_phases(request: RunRequest) -> None:
    for phase in Phase:
        request.phase(phase)


@pytest.fixture
def memory() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(memory: InMemorySpanExporter) -> Tracer:
    return Tracer(SpanExport(memory, SimpleSpanProcessor(memory)))


@pytest.fixture
def traced(stores: Stores, tracer: Tracer) -> FlakyStore:
    return FlakyStore(SqlJobStore(stores.engine, tracer=tracer))


def spans(memory: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in memory.get_finished_spans()}


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def list_spans(jobs: FlakyStore, job: Job) -> list[dict[str, Any]]:
    events = jobs.real.events(job.id)
    return [dict(event.details) for event in events if event.kind is JobEventKind.SPAN]


def test_one_trace_covers_submission_to_commit(
    traced: FlakyStore, history: FlakyStore, tracer: Tracer, memory: InMemorySpanExporter
) -> None:
    job = submit(traced)
    ran = Worker(build_job_runner(traced, history, ScriptedRunner(run_steps(enter_all_phases, succeed)), tracer=tracer))
    assert ran.run_one_job() is WorkResult.SUCCEEDED
    found = spans(memory)
    assert set(found) == {"submit", "run", "planning", "execution", "commit"}
    assert len({span.context.trace_id for span in found.values() if span.context}) == 1
    assert parent_of(found["submit"]) is None
    assert parent_of(found["run"]) == id_of(found["submit"])
    assert {parent_of(found[phase]) for phase in Phase} == {id_of(found["run"])}
    found_spans = dict(found["run"].attributes or {})
    assert (found_spans["icepack.job_id"], found_spans["icepack.table"], found_spans["icepack.attempt"]) == (
        str(job.id),
        str(TABLE),
        1,
    )
    assert (found_spans["icepack.state"], found_spans["icepack.bytes_written"]) == ("succeeded", 25)


def test_the_trace_of_the_caller_is_continued(
    traced: FlakyStore, history: FlakyStore, tracer: Tracer, memory: InMemorySpanExporter
) -> None:
    job = traced.real.submit(JobRequest(table=TABLE, action=Compact(), trace_context=CALLER)).job
    assert job.trace_context == CALLER
    Worker(build_job_runner(traced, history, ScriptedRunner(succeed), tracer=tracer)).run_one_job()
    caller = TraceContext.parse(CALLER)
    assert caller is not None
    found = spans(memory)
    assert {span.context.trace_id for span in found.values() if span.context} == {int(caller.trace_id, 16)}
    assert parent_of(found["submit"]) == parent_of(found["run"]) == int(caller.span_id, 16)


def test_every_job_has_a_trace_even_without_a_collector(jobs: FlakyStore, history: FlakyStore) -> None:
    job = submit(jobs, trace_context="no traceparent")
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    Worker(build_job_runner(jobs, history, ScriptedRunner(run_steps(enter_all_phases, succeed)))).run_one_job()
    found_spans = list_spans(jobs, job)
    assert [span["name"] for span in found_spans] == ["run", "planning", "execution", "commit"]
    assert {span["context"]["trace_id"] for span in found_spans} == {context.trace_id}
    assert found_spans[0]["parent_id"] == context.span_id
    assert {span["parent_id"] for span in found_spans[1:]} == {found_spans[0]["context"]["span_id"]}
    assert all(span["started_at"] <= span["ended_at"] for span in found_spans)


def test_each_attempt_has_a_run_of_its_own_in_the_trace(jobs: FlakyStore, history: FlakyStore) -> None:
    job = submit(jobs)
    runner = ScriptedRunner(fail(), succeed)
    tried = Worker(build_job_runner(jobs, history, runner, retry_delay=timedelta(0)))
    assert [tried.run_one_job(), tried.run_one_job()] == [WorkResult.RETURNED, WorkResult.SUCCEEDED]
    runs = [span for span in list_spans(jobs, job) if span["name"] == "run"]
    assert [span["attributes"]["icepack.attempt"] for span in runs] == [1, 2]
    assert [span["failure"] for span in runs] == ["It broke.", ""]
    assert len({span["context"]["trace_id"] for span in runs}) == 1


def test_a_refused_job_fails_in_the_planning_phase(jobs: FlakyStore, history: FlakyStore) -> None:
    def refuse(_: RunRequest) -> RunRecord:
        raise Refused("Too expensive.")

    job = submit(jobs)
    assert Worker(build_job_runner(jobs, history, ScriptedRunner(refuse))).run_one_job() is WorkResult.FAILED
    assert [(span["name"], span["failure"]) for span in list_spans(jobs, job)] == [
        ("run", "Too expensive."),
        ("planning", "Too expensive."),
    ]
    assert jobs.real.get(job.id).details["error"] == "Refused"


def test_a_trace_that_cannot_be_written_does_not_fail_the_job(jobs: FlakyStore, history: FlakyStore) -> None:
    job = submit(jobs)
    jobs.fails_before["trace"] = 1
    assert Worker(build_job_runner(jobs, history, ScriptedRunner(succeed))).run_one_job() is WorkResult.SUCCEEDED
    assert jobs.real.get(job.id).state is JobState.SUCCEEDED
    assert list_spans(jobs, job) == []


def test_a_result_that_is_written_twice_is_recognised_behind_its_spans(jobs: FlakyStore, history: FlakyStore) -> None:
    job = submit(jobs)
    jobs.fails_after["finish"] = 1
    assert (
        Worker(build_job_runner(jobs, history, ScriptedRunner(run_steps(enter_all_phases, succeed)))).run_one_job()
        is WorkResult.SUCCEEDED
    )
    assert jobs.calls.count("finish") == 2
    assert len(list_spans(jobs, job)) == 4


def test_log_lines_of_the_worker_name_job_table_and_trace(
    jobs: FlakyStore, history: FlakyStore, caplog: pytest.LogCaptureFixture
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
            Worker(build_job_runner(jobs, history, ScriptedRunner(succeed))).run_one_job()
    finally:
        logging.getLogger("icepack").removeHandler(handler)
    found_spans = [line for line in lines if "job_id" in line]
    context = TraceContext.parse(job.trace_context)
    assert context is not None
    assert len(found_spans) >= 2
    assert {(line["job_id"], line["table"], line["trace_id"]) for line in found_spans} == {
        (str(job.id), str(TABLE), context.trace_id)
    }


def test_a_run_reports_its_phases() -> None:
    entered: list[Phase] = []
    assert run(FakeTable(), phase=entered.append).state is RunState.SUCCEEDED
    assert entered == [Phase.PLANNING, Phase.EXECUTION, Phase.COMMIT]


def test_the_commit_phase_starts_when_the_last_group_is_written() -> None:
    entered: list[Phase] = []
    seen: list[list[Phase]] = []

    def write(context: Any) -> None:
        for done in (1, 2):
            context.progress(Progress(done=done, total=2, groups_done=done, groups=2))
            seen.append(list(entered))

    run(FakeTable(script=write), phase=entered.append)
    assert [phases[-1] for phases in seen] == [Phase.EXECUTION, Phase.COMMIT]


def test_a_run_that_fails_ends_in_the_phase_in_which_it_failed() -> None:
    entered: list[Phase] = []

    def fail(context: Any) -> None:
        raise EngineFault("The storage is gone.")

    assert run(FakeTable(script=fail), phase=entered.append).state is RunState.FAILED
    assert entered[-1] is Phase.EXECUTION


def test_a_run_that_was_committed_earlier_has_no_execution_phase() -> None:
    entered: list[Phase] = []
    run(FakeTable(commit(1)), attempt=2, phase=entered.append)
    assert Phase.EXECUTION not in entered


def test_the_record_names_the_kind_of_error() -> None:
    assert run(FakeTable(commit(1, added_records=39)), attempt=2).error == "RowsChanged"
    assert run(FakeTable()).error == ""
