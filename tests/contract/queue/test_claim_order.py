"""The order of claims: by priority, catalogs in turn, oldest first, one job per table, no job before it is due."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from contract.invariants import assert_consistent
from contract.queue_harness import DAWN, DONE, LEASE, Queue
from icepack.domain.actions import Compact, ExpireSnapshots, RewriteManifests
from icepack.domain.table import TableId
from icepack.store.queue import claim as claim_module


def _names(queue: Queue) -> list[str]:
    return [claim.table.name for claim in queue.claim_all()]


def test_a_larger_priority_goes_first(queue: Queue) -> None:
    for priority in (0, 5, -1_000_000, 1_000_000, 2):
        queue.submit(f"lake.sales.p{priority}".replace("-", "m"), priority=priority)
    assert _names(queue) == ["p1000000", "p5", "p2", "p0", "pm1000000"]


def test_within_a_priority_the_oldest_goes_first(queue: Queue) -> None:
    for name in ("c", "a", "b"):
        queue.submit(f"lake.sales.{name}")
    assert _names(queue) == ["c", "a", "b"]


def test_catalogs_take_turns(queue: Queue) -> None:
    for catalog, count in (("a", 5), ("b", 2), ("c", 1)):
        for number in range(count):
            queue.submit(f"{catalog}.sales.t{number}")
    assert [claim.table.catalog for claim in queue.claim_all()] == ["a", "b", "c", "a", "b", "a", "a", "a"]


def test_a_new_catalog_gets_the_next_turn(queue: Queue) -> None:
    for number in range(3):
        queue.submit(f"a.sales.t{number}")
    assert queue.claim().table.catalog == "a"
    queue.submit("b.sales.t0")
    assert [claim.table.catalog for claim in queue.claim_all()] == ["b", "a", "a"]


def test_a_more_urgent_priority_does_not_wait_for_a_turn(queue: Queue) -> None:
    for number in range(2):
        queue.submit(f"a.sales.t{number}", priority=1)
        queue.submit(f"b.sales.t{number}")
    assert [claim.table.catalog for claim in queue.claim_all()] == ["a", "a", "b", "b"]


def test_one_catalog_with_a_flood_does_not_starve_the_others(queue: Queue) -> None:
    for number in range(30):
        queue.submit(f"flood.sales.t{number}")
    for number in range(3):
        queue.submit(f"calm.sales.t{number}")
    first = [queue.claim().table.catalog for _ in range(6)]
    assert Counter(first) == {"flood": 3, "calm": 3}


def test_no_two_jobs_of_one_table_run_at_once(queue: Queue) -> None:
    actions = (Compact(), ExpireSnapshots(), RewriteManifests())
    made = [queue.submit(action=action).id for action in actions]
    ran = []
    for _ in actions:
        (claim,) = queue.claim_all()
        ran.append(claim.job_id)
        assert_consistent(queue.engine)
        queue.jobs.finish(claim, DONE)
    assert ran == made


def test_a_table_that_a_command_has_locked_is_skipped(queue: Queue) -> None:
    queue.submit("lake.sales.locked", priority=9)
    queue.submit("lake.sales.free")
    lock = queue.locks.acquire(TableId.parse("lake.sales.locked"), "cli", LEASE)
    assert _names(queue) == ["free"]
    queue.locks.release(lock)
    assert _names(queue) == ["locked"]


def test_a_job_submitted_while_its_table_is_held_waits_for_it(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.submit(action=ExpireSnapshots(), priority=9)
    assert queue.jobs.claim("other", LEASE) is None
    assert_consistent(queue.engine)
    queue.jobs.finish(claim, DONE)
    assert queue.claim().job.priority == 9


def test_no_job_runs_before_it_is_due_and_every_job_runs_once_it_is(queue: Queue) -> None:
    queue.submit("lake.sales.later", not_before=DAWN + timedelta(seconds=10), priority=9)
    queue.submit("lake.sales.past", not_before=DAWN - timedelta(seconds=10))
    queue.submit("lake.sales.now")
    assert _names(queue) == ["past", "now"]
    queue.wait(9.5)
    assert _names(queue) == []
    queue.wait(1)
    assert _names(queue) == ["later"]


def test_a_job_that_becomes_due_overtakes_less_urgent_jobs(queue: Queue) -> None:
    queue.submit(priority=1)
    urgent = queue.submit(action=ExpireSnapshots(), priority=2, not_before=DAWN + timedelta(seconds=10))
    queue.wait(10)
    assert queue.claim().job_id == urgent.id


def test_jobs_of_one_table_become_due_independently(queue: Queue) -> None:
    for seconds, action in ((10, Compact()), (20, ExpireSnapshots()), (30, RewriteManifests())):
        queue.submit(action=action, not_before=DAWN + timedelta(seconds=seconds))
    woken = []
    for _ in range(4):
        queue.wait(10)
        for claim in queue.claim_all():
            woken.append((claim.job.kind.value, queue.clock.read() - DAWN))
            queue.jobs.finish(claim, DONE)
        assert_consistent(queue.engine)
    assert woken == [
        ("compact", timedelta(seconds=10)),
        ("expire_snapshots", timedelta(seconds=20)),
        ("rewrite_manifests", timedelta(seconds=30)),
    ]


def test_many_jobs_become_due_at_once(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_module, "WAKE_BATCH", 3)
    for number in range(10):
        queue.submit(f"lake.sales.t{number}", priority=number, not_before=DAWN + timedelta(seconds=10))
    queue.wait(10)
    assert queue.claim().table.name == "t9"
    assert_consistent(queue.engine)
    assert len(_names(queue)) == 9


def test_a_job_becomes_due_while_its_table_is_held(queue: Queue) -> None:
    queue.submit()
    claim = queue.claim()
    queue.submit(action=ExpireSnapshots(), not_before=DAWN + timedelta(seconds=10))
    queue.wait(20)
    assert queue.jobs.claim("other", LEASE) is None
    assert_consistent(queue.engine)
    queue.jobs.finish(claim, DONE)
    assert queue.claim().job.kind == "expire_snapshots"


def test_similar_table_names_have_separate_slots(queue: Queue) -> None:
    tables = [TableId("lake", ("a", "b"), "t"), TableId("lake", ("a.b",), "t"), TableId("a b", ('"',), "; --")]
    for table in tables:
        queue.submit(table)
    assert {claim.table for claim in queue.claim_all()} == set(tables)
