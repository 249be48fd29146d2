"""The jobs commands."""

from __future__ import annotations

from datetime import timedelta

from icepack.domain.actions import Compact
from icepack.domain.job import JobOutcome, JobRequest, JobState
from icepack.domain.table import TableId
from icepack.store.backend import Stores

from .conftest import Call

ORDERS = TableId("lake", ("sales",), "orders")


def test_a_job_is_submitted_with_the_options_of_run(call: Call, stores: Stores) -> None:
    answer = call("jobs", "submit", "compact", "orders", "--rewrite-all", "--priority", "7", "--format", "json")
    assert answer.code == 0, answer.err
    assert answer.json["outcome"] == "created"
    (job,) = stores.jobs.list_jobs().jobs
    assert (job.table, job.priority, job.max_attempts) == (ORDERS, 7, 3)
    assert isinstance(job.action, Compact)
    assert job.action.rewrite_all
    assert job.requester.startswith("cli:")
    assert [event.action for event in stores.audit.entries()] == ["jobs.submit"]


def test_the_same_submission_again_creates_no_second_job(call: Call, stores: Stores) -> None:
    first, second = (call("jobs", "submit", "rewrite_manifests", "orders") for _ in range(2))
    assert "is queued" in first.out
    assert "already queued" in second.out
    assert len(stores.jobs.list_jobs().jobs) == 1


def test_a_key_that_was_used_creates_no_second_job(call: Call, stores: Stores) -> None:
    call("jobs", "submit", "rewrite_manifests", "orders", "--key", "k1")
    assert "already submitted with this key" in call("jobs", "submit", "rewrite_manifests", "orders", "--key", "k1").out


def test_a_job_can_start_later(call: Call, stores: Stores) -> None:
    arguments = ("jobs", "submit", "rewrite_manifests", "orders", "--not-before")
    assert call(*arguments, "2099-01-01T00:00:00Z").code == 0
    assert stores.jobs.claim("worker", timedelta(seconds=60)) is None
    assert call(*arguments, "2099-01-01T00:00:00").code == 2
    assert call(*arguments, "tomorrow").code == 2


def test_an_option_of_another_action_is_refused(call: Call, stores: Stores) -> None:
    assert call("jobs", "submit", "compact", "orders", "--older-than", "7d").code == 2


def test_the_list_can_be_filtered_and_paged(call: Call, stores: Stores) -> None:
    for name in ("orders", "customers"):
        call("jobs", "submit", "rewrite_manifests", name)
    assert "No matching jobs" in call("jobs", "list", "--state", "failed").out
    assert call("jobs", "list", "--table", "orders", "--format", "json").json["jobs"][0]["table"]["name"] == "orders"
    page = call("jobs", "list", "--limit", "1", "--format", "json").json
    assert page["jobs"][0]["table"]["name"] == "customers"
    rest = call("jobs", "list", "--before", str(page["next_before"]), "--format", "json").json
    assert [job["table"]["name"] for job in rest["jobs"]] == ["orders"]
    assert "--before" in call("jobs", "list", "--limit", "1").out


def test_show_lists_the_events_of_a_job(call: Call, stores: Stores) -> None:
    job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(), requester="me")).job
    claim = stores.jobs.claim("host:1:ab", timedelta(seconds=60))
    assert claim is not None
    stores.jobs.finish(claim, JobOutcome(state=JobState.FAILED, message="It broke."))
    shown = call("jobs", "show", str(job.id)).out
    assert all(part in shown for part in ("compact on lake.sales.orders: failed", "claimed by host:1:ab", "It broke."))
    found = call("jobs", "show", str(job.id), "--format", "json").json
    assert [event["kind"] for event in found["events"]] == ["submitted", "claimed", "failed"]


def test_a_queued_job_is_cancelled_at_once(call: Call, stores: Stores) -> None:
    job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
    assert "is cancelled" in call("jobs", "cancel", str(job.id)).out
    assert stores.jobs.get(job.id).state is JobState.CANCELLED


def test_a_running_job_is_stopped_by_its_worker(call: Call, stores: Stores) -> None:
    job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
    claim = stores.jobs.claim("worker", timedelta(seconds=60))
    assert "its worker will stop it" in call("jobs", "cancel", str(job.id)).out
    assert claim is not None
    assert stores.jobs.heartbeat(claim) is True


def test_a_finished_job_can_be_retried_but_not_cancelled(call: Call, stores: Stores) -> None:
    job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
    assert call("jobs", "retry", str(job.id)).code == 2
    claim = stores.jobs.claim("worker", timedelta(seconds=60))
    assert claim is not None
    stores.jobs.finish(claim, JobOutcome(state=JobState.FAILED))
    assert call("jobs", "cancel", str(job.id)).code == 2
    again = call("jobs", "retry", str(job.id), "--format", "json").json["job"]
    assert again["retry_of"] == str(job.id)


def test_an_unknown_job_is_a_usage_error(call: Call, stores: Stores) -> None:
    answer = call("jobs", "show", "00000000-0000-4000-8000-000000000000")
    assert answer.code == 2
    assert "not found" in answer.err
