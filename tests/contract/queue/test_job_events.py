"""Job events and trace spans."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contract.queue_harness import DAWN, DONE, LEASE, Queue
from icepack.domain.job import (
    ClaimLost,
    JobEventKind,
    JobOutcome,
    JobState,
)
from icepack.domain.observability.trace import Span, TraceContext


def test_events_record_the_whole_life_of_a_job(queue: Queue) -> None:
    job = queue.submit(requester="ann")
    queue.jobs.fail(queue.claim("first"), "conflict")
    queue.jobs.hand_back(queue.claim("second"), "SIGTERM")
    queue.claim("third")
    queue.wait(60)
    queue.jobs.reap()
    last = queue.claim("fourth")
    queue.jobs.finish(last, JobOutcome(state=JobState.SUCCEEDED, message="ok"))
    events = queue.jobs.events(job.id)
    assert [(event.kind.value, event.actor, event.attempt, event.message) for event in events] == [
        ("submitted", "ann", 0, ""),
        ("claimed", "first", 1, ""),
        ("retried", "first", 1, "conflict"),
        ("claimed", "second", 2, ""),
        ("handed_back", "second", 2, "SIGTERM"),
        ("claimed", "third", 3, ""),
        ("expired", "reaper", 3, "The lease of 'third' expired."),
        ("claimed", "fourth", 4, ""),
        ("succeeded", "fourth", 4, "ok"),
    ]
    assert {event.table for event in events} == {job.table}
    assert events[-2].number == last.fence
    assert events[0].at == DAWN
    assert events[-1].at == DAWN + timedelta(seconds=60)


def _span(name: str = "planning") -> Span:
    context = TraceContext(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")
    return Span(
        name=name,
        context=context,
        parent_id="1" * 16,
        started_at=DAWN,
        ended_at=DAWN + timedelta(seconds=1.5),
        attributes={"icepack.table": "naïve 雪\0", "icepack.attempt": 1, "done": True},
        failure="nul \0 and half a pair \ud800",
    )


def test_spans_are_stored_as_events(queue: Queue) -> None:
    job = queue.submit()
    claim = queue.claim("w")
    queue.jobs.trace(claim, [_span("run"), _span("planning")])
    queue.jobs.trace(claim, [])
    first, second = [event for event in queue.jobs.events(job.id) if event.kind is JobEventKind.SPAN]
    assert (first.actor, first.attempt, first.details["name"]) == ("w", 1, "run")
    assert second.message.startswith("planning took 1.500 s: nul")
    details = dict(second.details or {})
    assert (details["started_at"], details["ended_at"]) == ("2026-11-15T06:00:00Z", "2026-11-15T06:00:01.500000Z")
    assert details["context"]["trace_id"] == _span().context.trace_id
    assert details["attributes"] == {"icepack.table": "naïve 雪", "icepack.attempt": 1, "done": True}


def test_a_stale_claim_writes_no_spans(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.wait(LEASE.total_seconds() + 1)
    queue.jobs.reap()
    queue.claim("another")
    before = queue.dump()
    with pytest.raises(ClaimLost):
        queue.jobs.trace(claim, [_span()])
    assert queue.dump() == before


def test_a_finished_job_accepts_no_more_spans(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.jobs.finish(claim, DONE)
    with pytest.raises(ClaimLost):
        queue.jobs.trace(claim, [_span()])


def test_a_job_without_a_trace_gets_its_own(queue: Queue) -> None:
    first, second = queue.submit("lake.a.one"), queue.submit("lake.a.two", trace_context="no traceparent")
    found = [TraceContext.parse(job.trace_context) for job in (first, second)]
    assert None not in found
    assert len({context.trace_id for context in found if context}) == 2
