"""Job states, the digest of a request, and the validation of requests."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.domain.actions import Compact, ExpireSnapshots
from icepack.domain.job import (
    TRANSITIONS,
    Claim,
    ClaimLost,
    Job,
    JobOutcome,
    JobProgress,
    JobRequest,
    JobState,
    list_source_states,
)
from icepack.domain.serialization import from_json_text, to_json_text
from icepack.domain.table import TableId
from icepack.errors import InvalidOption

DIAGRAM = Path(__file__).parents[3] / "docs" / "job-states.md"
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ORDERS = TableId("lake", ("sales",), "orders")
JOB = Job(
    id=UUID(int=1),
    number=7,
    table=ORDERS,
    action=ExpireSnapshots(older_than=timedelta(days=3)),
    state=JobState.RUNNING,
    priority=-2,
    max_attempts=3,
    submitted_at=NOW,
    attempts=2,
    progress=JobProgress(files_processed=3),
    details={"a": [1, None]},
)


def _read_diagram() -> set[tuple[str, str]]:
    blocks = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", DIAGRAM.read_text(), re.DOTALL)
    assert len(blocks) == 1
    arrows = [re.fullmatch(r"(\S+) --> (\S+?)(?:: .+)?", line.strip()) for line in blocks[0].strip().splitlines()]
    return {(arrow[1], arrow[2]) for arrow in arrows if arrow is not None or pytest.fail("a line is no arrow")}


def test_the_diagram_shows_every_transition_and_no_other() -> None:
    moves = {(str(origin), str(target)) for origin, targets in TRANSITIONS.items() for target in targets}
    ends = {(str(state), "[*]") for state in JobState if state.is_final}
    assert _read_diagram() == moves | ends | {("[*]", "queued")}


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(JobState)
    reached = {JobState.QUEUED}
    while more := {target for state in reached for target in TRANSITIONS[state]} - reached:
        reached |= more
    assert reached == set(JobState)


def test_source_states_are_the_transitions_read_backwards() -> None:
    for state in JobState:
        assert set(list_source_states(state)) == {origin for origin in JobState if state in TRANSITIONS[origin]}


def test_a_finished_job_does_not_change_state() -> None:
    assert [state.value for state in JobState if state.is_final] == ["succeeded", "failed", "cancelled"]


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
def test_an_outcome_must_be_a_final_state(state: JobState) -> None:
    with pytest.raises(ValueError, match="is not a final job state"):
        JobOutcome(state=state)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4), st.randoms())
def test_the_order_of_options_does_not_make_a_difference(options: dict[str, str], dice: object) -> None:
    items = list(options.items())
    dice.shuffle(items)  # type: ignore[attr-defined]
    one, other = (JobRequest(table=ORDERS, action=Compact(options=dict(pairs))) for pairs in (options.items(), items))
    assert one.digest == other.digest


def test_every_parameter_makes_a_difference() -> None:
    actions = [
        Compact(),
        Compact(columns=("a",)),
        Compact(partition_filter="a = 1"),
        Compact(options={"a": "1"}),
        ExpireSnapshots(),
        ExpireSnapshots(older_than=timedelta(days=1)),
    ]
    assert len({JobRequest(table=ORDERS, action=action).digest for action in actions}) == len(actions)


def test_requester_priority_and_time_make_no_difference() -> None:
    plain = JobRequest(table=ORDERS, action=Compact())
    assert replace(plain, priority=5, requester="ann", not_before=NOW, idempotency_key="k").digest == plain.digest


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"priority": 1_000_001}, "out of range"),
        ({"priority": -1_000_001}, "out of range"),
        ({"max_attempts": 0}, "with 0 attempts"),
        ({"not_before": datetime(2026, 11, 15)}, "has no time zone"),
    ],
)
def test_an_invalid_request_is_refused(request_: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidOption, match=error):
        JobRequest(table=ORDERS, action=Compact(), **request_)  # type: ignore[arg-type]


def test_attempts_left_never_run_below_zero() -> None:
    assert [replace(JOB, attempts=attempts).attempts_left for attempts in (0, 2, 3, 4)] == [3, 1, 0, 0]


def test_a_job_survives_json() -> None:
    assert from_json_text(Job, to_json_text(JOB)) == JOB
    assert '"state":"running"' in to_json_text(JOB)


def test_a_lost_claim_says_whose_it_was() -> None:
    claim = Claim(job=JOB, fence=12, worker="w1", lease=timedelta(seconds=30), lease_ends_at=NOW)
    loss = ClaimLost(claim)
    assert (claim.job_id, claim.table, JOB.kind) == (JOB.id, ORDERS, "expire_snapshots")
    assert loss.claim is claim
    assert f"Worker 'w1' no longer holds job {JOB.id} (fence 12)" in str(loss)
