from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.factories import NOW, TABLE, deletes, partition, recommended, small_files, status
from domain.test_actions import actions
from icepack.domain.actions import ActionKind, Compact, ExpireSnapshots
from icepack.domain.ports.catalog import ExpiryPreview
from icepack.domain.ports.engine import Progress, RunContext, no_progress
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.run import CommitFacts, Proof, RealisedEffect, RunRecord, RunState, Stamp, Totals, compute_totals
from icepack.domain.serialization import from_json, from_json_text, to_json, to_json_text

JOB = UUID("00000000-0000-4000-8000-000000000001")


def record(**facts):
    made = recommended(status(small_files())).actions[0]
    defaults = {
        "job_id": JOB,
        "table": TABLE,
        "action": made.action,
        "state": RunState.SUCCEEDED,
        "started_at": NOW,
        "finished_at": NOW + timedelta(seconds=1.5),
        "before": compute_totals(status(), 80),
        "after": replace(compute_totals(status(), 100), snapshot_id=None),
        "effect": RealisedEffect(files_rewritten=100, files_added=1),
        "proofs": (Proof(method="records", rows_before=5, rows_after=5),),
        "commits": (2**62, 3),
        "expected": ExpectedEffect(files_removed=99),
        "estimate": made.cost,
        "realised_seconds": 1.5,
        "details": {"rewritten_data_files_count": 100, "nested": {"a": [1, None, "x"]}},
    }
    return RunRecord(**defaults | facts)


def test_a_record_survives_json_and_json_text():
    for run in (record(), RunRecord(job_id=JOB, table=TABLE, action=Compact(), state=RunState.RUNNING, started_at=NOW)):
        assert from_json(RunRecord, json.loads(json.dumps(to_json(run)))) == run
        assert from_json_text(RunRecord, to_json_text(run)) == run


@given(actions, st.sampled_from(RunState), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_record_of_any_action_survives_json_with_its_kind(action, state, message):
    run = record(action=action, state=state, message=message)
    back = from_json_text(RunRecord, to_json_text(run))
    assert back == run
    assert back.kind is action.kind


def test_times_stay_in_utc():
    back = from_json(RunRecord, to_json(record()))
    assert back.started_at.utcoffset() == timedelta()


def test_json_is_snake_case_with_names_for_enums():
    value = to_json(record(action=ExpireSnapshots()))
    assert value["action"]["kind"] == "expire_snapshots"
    assert value["action"]["older_than"] == "P7D"
    assert value["started_at"] == "2024-06-15T12:00:00Z"


@pytest.mark.parametrize(
    ("effect", "nothing"),
    [
        (RealisedEffect(), True),
        (RealisedEffect(manifests_before=5, manifests_after=5), True),
        (RealisedEffect(manifests_before=5, manifests_after=4), False),
        (RealisedEffect(files_rewritten=1), False),
        (RealisedEffect(snapshots_removed=1), False),
        (RealisedEffect(files_deleted=1), False),
    ],
)
def test_a_run_changed_nothing_when_it_succeeded_without_effect(effect, nothing):
    assert effect.is_empty is nothing
    assert record(effect=effect).changed_nothing is nothing
    assert not record(effect=effect, state=RunState.FAILED).changed_nothing


def test_a_proof_holds_when_the_rows_are_as_many_as_before():
    assert Proof(method="records", rows_before=5, rows_after=5).holds
    assert not Proof(method="records", rows_before=5, rows_after=4).holds


def test_a_commit_touches_files_when_it_adds_or_removes_any():
    counts = {field.name: 0 for field in fields(CommitFacts) if field.type == "int"}
    manifests_only = CommitFacts(**counts | {"snapshot_id": 2, "parent_id": 1, "operation": "replace"})
    assert not manifests_only.touches_files
    for name in ("added_data_files", "removed_data_files", "added_delete_files", "removed_delete_files"):
        assert replace(manifests_only, **{name: 1}).touches_files


def test_totals_are_taken_from_a_status():
    row = partition(data_files=4, bytes=10, records=7)
    made = compute_totals(status(row, deletes=deletes([row], dangling=2)), 90)
    assert made == Totals(
        snapshot_id=1, data_files=4, delete_files=2, bytes=10, records=7, snapshots=1, manifests=0, score=90
    )
    assert made.average_bytes == 2.5
    assert replace(made, data_files=0).average_bytes == 0


def test_a_stamp_names_the_job_the_attempt_and_the_version():
    assert Stamp(job_id=JOB, attempt=2).properties("0.1.0") == {
        "icepack.job-id": str(JOB),
        "icepack.attempt": "2",
        "icepack.batch": "1",
        "icepack.version": "0.1.0",
    }


def test_a_record_knows_its_kind():
    assert record(action=ExpireSnapshots()).kind is ActionKind.EXPIRE_SNAPSHOTS


def test_a_context_works_without_progress_and_cancellation():
    context = RunContext(stamp=Stamp(job_id=JOB), now=NOW)
    assert context.progress is no_progress
    assert context.progress(Progress(done=1, total=2)) is None
    assert not context.cancel.is_set()


def test_a_preview_of_an_expiry_counts_files_of_every_kind():
    counts = {"data_files": 1, "delete_files": 2, "manifests": 4, "manifest_lists": 8, "statistics_files": 16}
    assert ExpiryPreview(snapshot_ids=(1,), bytes=100, **counts).files == 31
