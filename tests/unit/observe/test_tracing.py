"""Traces carry on where they came from, and no failure to tell of them is the work's."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.observability.trace import Phase, Span, TraceContext
from icepack.tracing import Phases, Tracer, about, begun_under, in_context, subject

PARENT = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
WRITTEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A second passes with each look."""

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
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    assert TraceContext.parse(text) is None


def test_a_later_version_may_say_more() -> None:
    assert TraceContext.parse(f"01{WRITTEN[2:]}-what-comes") == PARENT


@given(st.text())
def test_no_text_is_too_odd_to_be_ignored(text: str) -> None:
    found = TraceContext.parse(text)
    assert found is None or str(found)[3:52] == text.strip()[3:52]


def test_who_is_not_to_be_sampled_is_not_exported_but_goes_on() -> None:
    told: list[Span] = []
    quiet = TraceContext.parse(f"{WRITTEN[:-2]}00")
    with Tracer(told.append).span("run", quiet) as span:
        assert span.context.trace_id == PARENT.trace_id
        assert str(span.context).endswith("-00")
    assert told == []


def test_a_span_without_a_parent_begins_a_trace() -> None:
    first, second = begun_under(None), begun_under(None)
    assert first.trace_id != second.trace_id
    assert TraceContext.parse(str(first)) == first


def test_a_span_tells_what_it_was_part_of_and_how_long_it_took() -> None:
    told: list[Span] = []
    with Tracer(told.append, Clock()).span("run", PARENT, icepack__attempt=2) as span:
        span.note(icepack__state="succeeded")
    (ended,) = told
    assert (ended.name, ended.parent_id, ended.context.trace_id) == ("run", PARENT.span_id, PARENT.trace_id)
    assert ended.context.span_id != PARENT.span_id
    assert ended.attributes == {"icepack.attempt": 2, "icepack.state": "succeeded"}
    assert ended.duration == timedelta(seconds=1)
    assert ended.failure == ""


def test_what_goes_wrong_is_in_the_span_without_its_secrets() -> None:
    told: list[Span] = []
    tracer = Tracer(told.append, clean=lambda text: text.replace("hunter2", "***"))
    with pytest.raises(ValueError, match="hunter2"), tracer.span("run"):
        raise ValueError("password hunter2")
    assert told[0].failure == "ValueError: password ***"


def test_a_sink_that_fails_does_not_fail_the_work(caplog: pytest.LogCaptureFixture) -> None:
    def sink(_: Span) -> None:
        raise RuntimeError("no collector")

    with caplog.at_level(logging.WARNING), Tracer(sink).span("run"):
        pass
    assert "span 'run' was not exported: no collector" in caplog.text


def test_phases_follow_one_another_without_a_gap() -> None:
    tracer = Tracer(clock=Clock())
    phases = Phases(tracer, PARENT)
    for phase in (Phase.PLANNING, Phase.PLANNING, Phase.EXECUTION, Phase.COMMIT):
        phases.enter(phase)
    spans = phases.finish("It broke.")
    assert [span.name for span in spans] == ["planning", "execution", "commit"]
    assert [span.failure for span in spans] == ["", "", "It broke."]
    assert {span.parent_id for span in spans} == {PARENT.span_id}
    assert phases.finish() == spans, "nothing is open any more"


def test_a_run_that_is_planned_anew_goes_through_its_phases_again() -> None:
    phases = Phases(Tracer(), PARENT)
    for phase in (Phase.EXECUTION, Phase.COMMIT, Phase.EXECUTION, Phase.COMMIT):
        phases.enter(phase)
    assert [span.name for span in phases.finish()] == ["execution", "commit"] * 2


def test_what_work_is_about_is_known_within_and_in_its_threads() -> None:
    seen: list[dict[str, str]] = []
    with about(job_id="1"), about(table="t"):
        threads = [Thread(target=in_context(lambda: seen.append(dict(subject())))) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert seen == [{"job_id": "1", "table": "t"}] * 2
    assert dict(subject()) == {}
