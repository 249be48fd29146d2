"""The commands of the service, up to the point where Spark would start."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from icepack.cli.commands.worker import exit_code, told_to_stop
from icepack.domain.actions import Compact
from icepack.domain.job import JobOutcome, JobRequest, JobState
from icepack.domain.ports.queue import AuditEvent
from icepack.domain.table import TableId
from icepack.service.worker.context import WorkEnd
from icepack.store.backend import Stores, open_stores

from .conftest import Call

ORDERS = TableId("lake", ("sales",), "orders")


@pytest.fixture
def stores(lake: Path, tmp_path: Path) -> Stores:
    opened = open_stores(f"sqlite:///{tmp_path}/state/icepack/state.db")
    yield opened
    opened.close()


def deeds(stores: Stores) -> list[AuditEvent]:
    return list(reversed(stores.audit.entries()))


class TestJobs:
    def test_a_job_is_submitted_with_the_options_of_run(self, call: Call, stores: Stores) -> None:
        answer = call("jobs", "submit", "compact", "orders", "--rewrite-all", "--priority", "7", "--format", "json")
        assert answer.code == 0, answer.err
        assert answer.json["outcome"] == "created"
        (job,) = stores.jobs.list_jobs().jobs
        assert (job.table, job.priority, job.max_attempts) == (ORDERS, 7, 3)
        assert isinstance(job.action, Compact)
        assert job.action.rewrite_all
        assert job.requester.startswith("cli:")
        assert [event.action for event in deeds(stores)] == ["jobs.submit"]

    def test_the_same_again_is_the_same_job(self, call: Call, stores: Stores) -> None:
        first, second = (call("jobs", "submit", "rewrite_manifests", "orders") for _ in range(2))
        assert "is queued" in first.out
        assert "queued already" in second.out
        assert len(stores.jobs.list_jobs().jobs) == 1

    def test_a_key_that_was_used_is_the_same_submission(self, call: Call, stores: Stores) -> None:
        call("jobs", "submit", "rewrite_manifests", "orders", "--key", "k1")
        assert "with this key before" in call("jobs", "submit", "rewrite_manifests", "orders", "--key", "k1").out

    def test_a_job_can_wait(self, call: Call, stores: Stores) -> None:
        arguments = ("jobs", "submit", "rewrite_manifests", "orders", "--not-before")
        assert call(*arguments, "2099-01-01T00:00:00Z").code == 0
        assert stores.jobs.claim("worker", timedelta(seconds=60)) is None
        assert call(*arguments, "2099-01-01T00:00:00").code == 2
        assert call(*arguments, "tomorrow").code == 2

    def test_an_option_of_another_action_is_refused(self, call: Call, stores: Stores) -> None:
        assert call("jobs", "submit", "compact", "orders", "--older-than", "7d").code == 2

    def test_the_list_can_be_narrowed_and_paged(self, call: Call, stores: Stores) -> None:
        for name in ("orders", "customers"):
            call("jobs", "submit", "rewrite_manifests", name)
        assert "no such jobs" in call("jobs", "list", "--state", "failed").out
        assert (
            call("jobs", "list", "--table", "orders", "--format", "json").json["jobs"][0]["table"]["name"] == "orders"
        )
        page = call("jobs", "list", "--limit", "1", "--format", "json").json
        assert page["jobs"][0]["table"]["name"] == "customers"
        rest = call("jobs", "list", "--before", str(page["next_before"]), "--format", "json").json
        assert [job["table"]["name"] for job in rest["jobs"]] == ["orders"]
        assert "--before" in call("jobs", "list", "--limit", "1").out

    def test_a_job_tells_its_story(self, call: Call, stores: Stores) -> None:
        job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(), requester="me")).job
        claim = stores.jobs.claim("host:1:ab", timedelta(seconds=60))
        assert claim is not None
        stores.jobs.finish(claim, JobOutcome(state=JobState.FAILED, message="It broke."))
        shown = call("jobs", "show", str(job.id)).out
        assert all(
            part in shown for part in ("compact on lake.sales.orders: failed", "claimed by host:1:ab", "It broke.")
        )
        found = call("jobs", "show", str(job.id), "--format", "json").json
        assert [event["kind"] for event in found["events"]] == ["submitted", "claimed", "failed"]

    def test_a_queued_job_is_cancelled_at_once(self, call: Call, stores: Stores) -> None:
        job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
        assert "is cancelled" in call("jobs", "cancel", str(job.id)).out
        assert stores.jobs.get(job.id).state is JobState.CANCELLED

    def test_a_running_ones_worker_is_asked(self, call: Call, stores: Stores) -> None:
        job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
        claim = stores.jobs.claim("worker", timedelta(seconds=60))
        assert "asked to stop" in call("jobs", "cancel", str(job.id)).out
        assert claim is not None
        assert stores.jobs.heartbeat(claim) is True

    def test_what_has_ended_can_be_tried_again_but_not_cancelled(self, call: Call, stores: Stores) -> None:
        job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact())).job
        assert call("jobs", "retry", str(job.id)).code == 2
        claim = stores.jobs.claim("worker", timedelta(seconds=60))
        assert claim is not None
        stores.jobs.finish(claim, JobOutcome(state=JobState.FAILED))
        assert call("jobs", "cancel", str(job.id)).code == 2
        again = call("jobs", "retry", str(job.id), "--format", "json").json["job"]
        assert again["retry_of"] == str(job.id)

    def test_an_unknown_job_is_a_usage_error(self, call: Call, stores: Stores) -> None:
        answer = call("jobs", "show", "00000000-0000-4000-8000-000000000000")
        assert answer.code == 2
        assert "There is no job" in answer.err


class TestLocks:
    def test_without_any_it_says_so(self, call: Call, stores: Stores) -> None:
        assert "No table is locked" in call("locks").out

    def test_it_shows_who_holds_what(self, call: Call, stores: Stores) -> None:
        stores.locks.acquire(ORDERS, "cli:laptop:7", timedelta(seconds=60), "compact")
        assert "cli:laptop:7" in call("locks").out
        assert call("locks", "--format", "json").json["locks"][0]["owner"] == "cli:laptop:7"

    def test_force_breaks_one_and_is_on_record(self, call: Call, stores: Stores) -> None:
        stores.locks.acquire(ORDERS, "cli:laptop:7", timedelta(seconds=60))
        assert "'cli:laptop:7'" in call("locks", "--force", "orders").out
        assert stores.locks.list_locks() == []
        assert [(event.action, event.subject) for event in deeds(stores)] == [("locks.break", str(ORDERS))]

    def test_a_table_that_nobody_holds_cannot_be_freed(self, call: Call, stores: Stores) -> None:
        assert call("locks", "--force", "orders").code == 2

    def test_a_held_table_is_refused_to_a_run_by_hand(self, call: Call, stores: Stores) -> None:
        stores.locks.acquire(ORDERS, "cli:laptop:7", timedelta(seconds=60), "compact")
        answer = call("run", "rewrite_manifests", "orders", "--format", "json")
        assert answer.code == 1
        assert answer.json["run"]["state"] == "refused"
        assert "is held by 'cli:laptop:7'" in answer.json["run"]["message"]


class TestDatabase:
    def test_upgrade_makes_it_current(self, call: Call, tmp_path: Path) -> None:
        assert call("db", "upgrade").code == 0
        assert (tmp_path / "state" / "icepack" / "state.db").is_file()

    def test_prune_tells_what_went(self, call: Call, stores: Stores) -> None:
        call("jobs", "submit", "rewrite_manifests", "orders")
        call("jobs", "cancel", str(stores.jobs.list_jobs().jobs[0].id))
        assert call("db", "prune", "--jobs", "never", "--format", "json").json["pruned"]["jobs"] == 0
        assert call("db", "prune", "--jobs", "0s", "--format", "json").json["pruned"]["jobs"] == 1
        assert "jobs: 0 dropped" in call("db", "prune").out

    def test_a_bad_age_is_a_usage_error(self, call: Call, stores: Stores) -> None:
        answer = call("db", "prune", "--runs", "soon")
        assert answer.code == 2
        assert "never" in answer.err


class TestWorker:
    def test_an_empty_queue_ends_with_0(self, call: Call, stores: Stores) -> None:
        assert call("worker").code == 0

    def test_a_table_that_is_gone_fails_its_job(self, call: Call, stores: Stores) -> None:
        gone = TableId("lake", ("sales",), "gone")
        job = stores.jobs.submit(JobRequest(table=gone, action=Compact())).job
        assert call("worker").code == 1
        ended = stores.jobs.get(job.id)
        assert (ended.state, ended.attempts) == (JobState.FAILED, 1), ended.message

    def test_a_job_over_its_limit_is_refused(self, call: Call, stores: Stores) -> None:
        job = stores.jobs.submit(JobRequest(table=ORDERS, action=Compact(max_cost_dollars=1e-12))).job
        assert call("worker").code == 1
        assert "over the limit" in stores.jobs.get(job.id).message

    @pytest.mark.parametrize(
        ("end", "once", "looping"),
        [
            (WorkEnd.IDLE, 0, 0),
            (WorkEnd.SUCCEEDED, 0, 0),
            (WorkEnd.CANCELLED, 0, 0),
            (WorkEnd.FAILED, 1, 0),
            (WorkEnd.RETURNED, 75, 75),
            (WorkEnd.LOST, 75, 75),
        ],
    )
    def test_exit_codes(self, end: WorkEnd, once: int, looping: int) -> None:
        assert exit_code(end, loop=False, interrupted=False) == once
        assert exit_code(end, loop=True, interrupted=False) == looping

    def test_interrupted_while_there_was_nothing_to_hand_back(self) -> None:
        assert exit_code(WorkEnd.IDLE, loop=True, interrupted=True) == 130
        assert exit_code(WorkEnd.RETURNED, loop=True, interrupted=True) == 75
        assert exit_code(WorkEnd.SUCCEEDED, loop=False, interrupted=True) == 0

    def test_the_first_signal_asks_and_the_second_leaves(self) -> None:
        stopped = threading.Event()
        with told_to_stop(stopped.set) as received:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopped.wait(2)
            assert received == [signal.SIGTERM]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait(2)
