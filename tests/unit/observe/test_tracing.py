"""Spans continue the trace of their parent, and a failing exporter never fails the work."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.observability.trace import Phase, Span, TraceContext
from icepack.tracing import PhaseSpans, Tracer, bind_context, current_log_context, log_context, new_span_context

PARENT = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
WRITTEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Advances by one second with each call."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def test_a_traceparent_is_read_and_written() -> None:
    assert TraceContext.parse(WRITTEN) == PARENT
    assert str(PARENT) == WRITTEN
    assert TraceContext.parse(f" {WRITTEN} ") == PARENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "trace",
        WRITTEN.upper(),
        WRITTEN[:-1],
        f"{WRITTEN}-more",
        f"ff{WRITTEN[2:]}",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        f"{WRITTEN}\nX-Evil: 1",
    ],
)
def test_an_invalid_traceparent_is_ignored(text: str) -> None:
    assert TraceContext.parse(text) is None


def test_a_later_version_may_have_more_fields() -> None:
    assert TraceContext.parse(f"01{WRITTEN[2:]}-what-comes") == PARENT


@given(st.text())
def test_any_text_is_parsed_or_ignored(text: str) -> None:
    found = TraceContext.parse(text)
    assert found is None or str(found)[3:52] == text.strip()[3:52]


def test_a_trace_that_is_not_sampled_continues_but_is_not_exported() -> None:
    exported: list[Span] = []
    quiet = TraceContext.parse(f"{WRITTEN[:-2]}00")
    with Tracer(exported.append).span("run", quiet) as span:
        assert span.context.trace_id == PARENT.trace_id
        assert str(span.context).endswith("-00")
    assert exported == []


def test_a_span_without_a_parent_starts_a_trace() -> None:
    first, second = new_span_context(None), new_span_context(None)
    assert first.trace_id != second.trace_id
    assert TraceContext.parse(str(first)) == first


def test_a_span_has_its_parent_attributes_and_duration() -> None:
    exported: list[Span] = []
    with Tracer(exported.append, Clock()).span("run", PARENT, icepack__attempt=2) as span:
        span.set_attributes(icepack__state="succeeded")
    (ended,) = exported
    assert (ended.name, ended.parent_id, ended.context.trace_id) == ("run", PARENT.span_id, PARENT.trace_id)
    assert ended.context.span_id != PARENT.span_id
    assert ended.attributes == {"icepack.attempt": 2, "icepack.state": "succeeded"}
    assert ended.duration == timedelta(seconds=1)
    assert ended.failure == ""


def test_a_failure_is_in_the_span_without_its_secrets() -> None:
    exported: list[Span] = []
    tracer = Tracer(exported.append, clean=lambda text: text.replace("hunter2", "***"))
    with pytest.raises(ValueError, match="hunter2"), tracer.span("run"):
        raise ValueError("password hunter2")
    assert exported[0].failure == "ValueError: password ***"


def test_a_sink_that_fails_does_not_fail_the_work(caplog: pytest.LogCaptureFixture) -> None:
    def sink(_: Span) -> None:
        raise RuntimeError("no collector")

    with caplog.at_level(logging.WARNING), Tracer(sink).span("run"):
        pass
    assert "span 'run' was not exported: no collector" in caplog.text


def test_each_phase_ends_when_the_next_one_starts() -> None:
    tracer = Tracer(clock=Clock())
    phases = PhaseSpans(tracer, PARENT)
    for phase in (Phase.PLANNING, Phase.PLANNING, Phase.EXECUTION, Phase.COMMIT):
        phases.enter(phase)
    spans = phases.finish("It broke.")
    assert [span.name for span in spans] == ["planning", "execution", "commit"]
    assert [span.failure for span in spans] == ["", "", "It broke."]
    assert {span.parent_id for span in spans} == {PARENT.span_id}
    assert phases.finish() == spans, "no phase is active any more"


def test_a_run_that_is_planned_again_repeats_its_phases() -> None:
    phases = PhaseSpans(Tracer(), PARENT)
    for phase in (Phase.EXECUTION, Phase.COMMIT, Phase.EXECUTION, Phase.COMMIT):
        phases.enter(phase)
    assert [span.name for span in phases.finish()] == ["execution", "commit"] * 2


def test_the_log_context_is_known_in_the_block_and_in_its_threads() -> None:
    seen: list[dict[str, str]] = []
    with log_context(job_id="1"), log_context(table="t"):
        threads = [Thread(target=bind_context(lambda: seen.append(dict(current_log_context())))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert seen == [{"job_id": "1", "table": "t"}] * 2
    assert dict(current_log_context()) == {}
