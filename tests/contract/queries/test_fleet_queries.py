"""Queries of the API: limited to what the reader may see, page by page, equal to what the stores return."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from contract.queue_harness import DAWN, DONE, LEASE, Queue, request
from contract.sample_runs import NOON, ODD, ORDERS, run, totals
from contract.sample_tables import cached
from icepack.api.responses import encode_json
from icepack.domain.access import ALL_TABLES, Scope
from icepack.domain.actions import ActionKind
from icepack.domain.job import IdempotencyKeyReused, JobFilter, JobProgress, JobState, SubmissionOutcome
from icepack.domain.observability.fleet_trend import sum_by_namespace
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.ports.history import StatusPoint
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.run import RealisedEffect, RunState
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.store.history import SqlHistoryStore
from icepack.store.queries.fleet import SqlFleetQueries

NOWHERE = ()
EFFECT = RealisedEffect(
    files_rewritten=9,
    files_added=1,
    delete_files_removed=2,
    bytes_rewritten=900,
    bytes_added=800,
    files_deleted=2,
    bytes_deleted=2**40,
)
EXPECTED = ExpectedEffect(files_removed=10, delete_files_removed=2, bytes_rewritten=1000)


@pytest.fixture
def fleet_queries(engine: Engine) -> SqlFleetQueries:
    return SqlFleetQueries(engine)


def tables(*names: str) -> list[TableId]:
    return [TableId.parse(name) for name in names]


class TestJobs:
    def test_a_listed_job_is_the_job_without_its_details(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        job = queue.submit(ODD, priority=3, requester="ann", estimated_seconds=2.5)
        (listed,) = fleet_queries.jobs(JobFilter()).jobs
        expected = to_json(job)
        del expected["details"], expected["lease_ends_at"]
        plain = {name: str(value) if name in ("id",) else value for name, value in listed.items()}
        plain["submitted_at"] = expected["submitted_at"]
        assert plain == {**expected, "table_name": str(ODD)}

    @pytest.mark.parametrize("number", [0, 1])
    def test_the_json_of_a_listed_job_is_equal(self, queue: Queue, fleet_queries: SqlFleetQueries, number: int) -> None:
        queue.submit(ODD, priority=3, requester='an "n" ü \u2028', estimated_seconds=2.5, idempotency_key="k")
        claim = queue.claim()
        queue.jobs.progress(claim, JobProgress(files_processed=3, working_on=("día=1",)))
        queue.submit(ORDERS)
        documents, (texts, more) = fleet_queries.jobs(JobFilter()).jobs, fleet_queries.list_jobs_as_json(JobFilter())
        document, text = documents[number], texts[number]
        assert more is None
        read = json.loads(f"{{{text.text}}}")
        assert read == json.loads(encode_json(document))
        assert (text.job_id, text.number, text.state) == (read["id"], read["number"], read["state"])
        assert json.loads(text.progress) == read["progress"]

    @pytest.mark.parametrize(
        "wanted",
        [
            JobFilter(),
            JobFilter(states=frozenset({JobState.QUEUED})),
            JobFilter(states=frozenset({JobState.QUEUED, JobState.RUNNING}), catalog="lake"),
            JobFilter(table=ORDERS, kind=ActionKind.COMPACT, requester="ann"),
            JobFilter(kind=ActionKind.EXPIRE_SNAPSHOTS),
            JobFilter(since=DAWN + timedelta(minutes=30)),
            JobFilter(since=DAWN, until=DAWN + timedelta(minutes=30)),
        ],
    )
    @pytest.mark.parametrize("scopes", [ALL_TABLES, (Scope("lake", "s*"),), NOWHERE])
    def test_the_json_list_has_the_same_filters_and_pages(
        self, queue: Queue, fleet_queries: SqlFleetQueries, wanted: JobFilter, scopes: tuple[Scope, ...]
    ) -> None:
        for table in (ORDERS, ODD, TableId("lake", ("ops",), "log")):
            queue.submit(table, requester="ann")
        queue.claim()
        queue.jobs.finish(queue.claim(), DONE)
        queue.clock.shift(timedelta(hours=1))
        queue.submit(TableId("lake", ("sales",), "late"))
        before = None
        while True:
            page = fleet_queries.jobs(wanted, scopes, limit=1, before=before)
            for _ in range(2):
                texts, more = fleet_queries.list_jobs_as_json(wanted, scopes, limit=1, before=before)
                assert [text.number for text in texts] == [job["number"] for job in page.jobs]
                assert more == page.next_before
            before = page.next_before
            if before is None:
                break

    def test_pages_follow_one_another(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        made = [queue.submit(f"lake.sales.t{number}").number for number in range(5)]
        seen, before = [], None
        while True:
            page = fleet_queries.jobs(JobFilter(), limit=2, before=before)
            seen += [job["number"] for job in page.jobs]
            before = page.next_before
            if before is None:
                break
        assert seen == made[::-1]

    @pytest.mark.parametrize(
        ("scopes", "expected"),
        [
            (ALL_TABLES, {"lake.sales.a", "lake.sales_eu.b", "lake.ops.c", "other.sales.d", "lake.Sales.e"}),
            ((Scope("lake", "sales*"),), {"lake.sales.a", "lake.sales_eu.b"}),
            ((Scope("lake", "sales_??"),), {"lake.sales_eu.b"}),
            ((Scope("lake", "sales"), Scope("other", "*")), {"lake.sales.a", "other.sales.d"}),
            ((Scope("*", "sales"),), {"lake.sales.a", "other.sales.d"}),
            ((Scope("l%e", "*"), Scope("l_ke", "*"), Scope("*[a]*", "*")), set()),
            (NOWHERE, set()),
        ],
    )
    def test_only_jobs_within_scope_are_seen(
        self, queue: Queue, fleet_queries: SqlFleetQueries, scopes: tuple[Scope, ...], expected: set[str]
    ) -> None:
        for name in ("lake.sales.a", "lake.sales_eu.b", "lake.ops.c", "other.sales.d", "lake.Sales.e"):
            queue.submit(name)
        assert {job["table_name"] for job in fleet_queries.jobs(JobFilter(), scopes).jobs} == expected
        assert fleet_queries.job_counts(scopes)[JobState.QUEUED] == len(expected)
        assert all(any(scope.covers(table) for scope in scopes) for table in tables(*expected))

    def test_running_jobs_have_their_progress(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        queue.submit()
        claim = queue.claim()
        (running,) = fleet_queries.running()
        assert (running.job_id, running.table) == (claim.job_id, claim.table)
        queue.jobs.finish(claim, DONE)
        assert fleet_queries.running() == []

    def test_the_oldest_due_job_is_found(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        assert fleet_queries.oldest_due() is None
        first = queue.submit("lake.sales.a")
        queue.wait(60)
        queue.submit("lake.sales.b")
        assert fleet_queries.oldest_due() == first.submitted_at
        list(queue.claim_all())
        assert fleet_queries.oldest_due() is None

    def test_events_follow_one_another(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        assert fleet_queries.newest_event() == 0
        queue.submit()
        seen = fleet_queries.events_after(0)
        queue.claim()
        queue.locks.acquire(TableId("lake", ("x",), "y"), "me", LEASE)
        assert [event.kind for event in fleet_queries.events_after(seen[-1].number)] == ["claimed"]
        assert fleet_queries.newest_event() > seen[-1].number

    def test_ended_jobs_are_counted_since_a_moment(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        for name in ("lake.sales.a", "lake.ops.b"):
            queue.submit(name)
            queue.jobs.finish(queue.claim(), DONE)
            queue.wait(60)
        queue.submit("lake.sales.c")
        noon = queue.clock.read()
        counts = [
            fleet_queries.ended_counts(noon - timedelta(seconds=ago), scopes)[JobState.SUCCEEDED]
            for ago, scopes in ((600, ALL_TABLES), (90, ALL_TABLES), (600, (Scope("lake", "sales"),)), (0, ALL_TABLES))
        ]
        assert counts == [2, 1, 1, 0]
        assert JobState.QUEUED not in fleet_queries.ended_counts(noon)


class TestTrend:
    def test_a_day_sums_only_the_visible_namespaces(self, engine: Engine, fleet_queries: SqlFleetQueries) -> None:
        history = SqlHistoryStore(engine)
        fleet = {ORDERS: totals(1, 10), TableId("lake", ("ops",), "log"): totals(1, 30)}
        history.save_day(NOON.date(), sum_by_namespace(fleet))
        history.save_day(NOON.date() - timedelta(days=1), sum_by_namespace({ORDERS: totals(1, 5)}))
        everything = fleet_queries.trend(NOON.date() - timedelta(days=1))
        assert [(point.day, point.tables, point.data_files) for point in everything] == [
            ("2026-11-14", 1, 5),
            ("2026-11-15", 2, 40),
        ]
        assert everything[1].average_score == totals(1).score
        assert [point.data_files for point in fleet_queries.trend(NOON.date(), (Scope("lake", "sales"),))] == [10]
        assert fleet_queries.trend(NOON.date(), NOWHERE) == []

    def test_the_last_state_of_a_day_replaces_earlier_ones(
        self, engine: Engine, fleet_queries: SqlFleetQueries
    ) -> None:
        history = SqlHistoryStore(engine)
        history.save_day(NOON.date(), sum_by_namespace({ORDERS: totals(1, 10), ODD: totals(1, 7)}))
        history.save_day(NOON.date(), sum_by_namespace({ORDERS: totals(1, 4)}))
        assert [(point.tables, point.data_files) for point in fleet_queries.trend(NOON.date())] == [(1, 4)]


class TestKeys:
    def test_a_key_identifies_the_request_by_its_fingerprint(
        self, queue: Queue, fleet_queries: SqlFleetQueries
    ) -> None:
        from icepack.domain.actions import RewriteManifests

        asked = {"idempotency_key": "api:ann:1", "fingerprint": "same"}
        first = queue.jobs.submit(request(**asked))
        again = queue.jobs.submit(request(action=RewriteManifests(), **asked))
        assert (again.outcome, again.job.id) == (SubmissionOutcome.REPEATED, first.job.id)
        with pytest.raises(IdempotencyKeyReused):
            queue.jobs.submit(request(idempotency_key="api:ann:1", fingerprint="other"))

    def test_jobs_are_found_by_key_prefix(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        made = [queue.submit(f"lake.sales.t{number}", idempotency_key=f"api:ann:k:{number}") for number in range(3)]
        queue.submit("lake.sales.t9", idempotency_key="api:ann:kk")
        assert fleet_queries.keyed_jobs("api:ann:k:") == [job.id for job in made]


class TestTables:
    def test_a_cached_table_is_read_as_it_was_written(self, queue: Queue, fleet_queries: SqlFleetQueries) -> None:
        seen = cached(ORDERS)
        generation = queue.cache.begin("me", LEASE)
        queue.cache.write(generation, [seen])
        assert fleet_queries.table(ORDERS) is None
        queue.cache.swap(generation)
        found = fleet_queries.table(ORDERS)
        assert found is not None
        assert found.status == to_json(seen.status)
        assert found.health == to_json(seen.health)
        assert found.recommendation == to_json(seen.recommendation)

    def test_a_summary_has_what_lists_show(self, queue: Queue) -> None:
        seen = cached(ORDERS)
        generation = queue.cache.begin("me", LEASE)
        queue.cache.write(generation, [seen])
        queue.cache.swap(generation)
        (summary,) = queue.cache.summaries()
        assert summary.brief.issues == tuple(issue.code for issue in seen.health.issues)
        assert summary.brief.actions == tuple(item.kind for item in seen.recommendation.actions)
        assert summary.brief.partitions == 1


class TestRuns:
    def test_runs_of_a_table_come_page_by_page(self, engine: Engine, fleet_queries: SqlFleetQueries) -> None:
        history = SqlHistoryStore(engine)
        made = [run(minutes=minute) for minute in range(3)]
        for record in made:
            history.save(record)
        history.save(run(ODD))
        page = fleet_queries.runs(ORDERS, limit=2)
        rest = fleet_queries.runs(ORDERS, limit=2, before=page.next_before)
        assert [*page.runs, *rest.runs] == [to_json(record) for record in reversed(made)]
        assert rest.next_before is None

    def test_points_come_in_order(self, engine: Engine, fleet_queries: SqlFleetQueries) -> None:
        history = SqlHistoryStore(engine)
        moments = [NOON + timedelta(hours=hour) for hour in range(4)]
        history.save_status([StatusPoint(table=ORDERS, observed_at=at, totals=totals(1)) for at in moments])
        assert [point["observed_at"] for point in fleet_queries.points(ORDERS, limit=3)] == moments[1:]

    def test_costs_are_summed_by_day_and_by_table(self, engine: Engine, fleet_queries: SqlFleetQueries) -> None:
        history = SqlHistoryStore(engine)
        estimate = CostEstimate(get_requests=10, put_requests=3, duration_seconds=5.0, dollars=0.5)
        for minutes in (0, 1, 24 * 60):
            history.save(
                run(minutes=minutes, estimate=estimate, realised_seconds=7.0, effect=EFFECT, expected=EXPECTED)
            )
        history.save(run(ODD, realised_seconds=100.0))
        history.save(run(state=RunState.RUNNING, realised_seconds=1000.0))
        history.save(run(minutes=-60, realised_seconds=1000.0))
        scope = (Scope("lake", "sales"),)
        lines = fleet_queries.costs_by_day(NOON, scope)
        assert [(line.key, line.sums.runs) for line in lines] == [
            (("2026-11-15", "compact"), 2),
            (("2026-11-16", "compact"), 1),
        ]
        assert asdict(lines[0].sums) == {
            "runs": 2,
            "estimated_dollars": 1.0,
            "estimated_seconds": 10.0,
            "realised_seconds": 14.0,
            "get_requests": 20,
            "put_requests": 6,
            "estimated_files_removed": 24,
            "files_removed": 20,
            "estimated_bytes_rewritten": 2000,
            "bytes_rewritten": 1800,
            "bytes_removed": 200,
            "files_deleted": 4,
            "bytes_deleted": 2 * 2**40,
        }
        assert [line.key for line in fleet_queries.costs_by_table(NOON)] == [(str(ODD),), (str(ORDERS),)]
