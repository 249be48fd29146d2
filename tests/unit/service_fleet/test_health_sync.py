"""Health sync with a real store: only changed tables are inspected, and a failure leaves the cache unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from icepack.domain.actions import Compact
from icepack.domain.ports.table_cache import RefreshInProgress
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId, TablePattern
from icepack.errors import Cancelled, CatalogFault, EnvironmentFault, TableNotFound
from icepack.service.health_sync import RefreshFailed, SyncOptions, TableCacheSyncWorker
from icepack.store.backend import Stores

from .fakes import HOUR, ITEMS, LOG, MINUTE, ORDERS, FakeAdvisor, FakeClock, table

Build = Callable[..., TableCacheSyncWorker]
FAR = table("far", "deep", "other")
INTERNAL = table("_internal")


@dataclass
class FakeCatalogs:
    """Catalogs that know the metadata locations of the advisor's tables; some may not answer."""

    advisor: FakeAdvisor
    catalog_names: tuple[str, ...] = ("lake", "other")
    silent: set[str] = field(default_factory=set)

    def metadata_locations(self, catalog: str) -> Mapping[TableId, str]:
        if catalog in self.silent:
            raise CatalogFault(f"Catalog '{catalog}' did not answer.")
        found = self.advisor.tables.items()
        return {name: status.metadata_location for name, status in found if name.catalog == catalog}


@pytest.fixture
def catalogs(advisor: FakeAdvisor) -> FakeCatalogs:
    for name in (ORDERS, ITEMS, LOG, FAR, INTERNAL):
        advisor.add(name, small=20)
    return FakeCatalogs(advisor)


@pytest.fixture
def build(stores: Stores, clock: FakeClock, advisor: FakeAdvisor, catalogs: FakeCatalogs) -> Build:
    clock.now = datetime.now(UTC)

    def made(**facts: Any) -> TableCacheSyncWorker:
        defaults: dict[str, Any] = {
            "catalogs": catalogs,
            "advisor": advisor,
            "cache": stores.cache,
            "status_history": stores.history,
            "history": stores.history,
            "owner": "test",
            "clock": clock,
            "options": SyncOptions(batch_tables=2, threads=2),
        }
        return TableCacheSyncWorker(**defaults | facts)

    return made


def change(advisor: FakeAdvisor, of: TableId, small: int = 30) -> None:
    location = advisor.tables[of].metadata_location
    advisor.add(of, small=small, metadata_location=f"{location}+")


def test_the_first_refresh_inspects_all_tables_except_internal_ones(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    report = build().run_once()
    assert (report.tables, report.changed, report.refreshed, report.unreadable) == (4, 4, 4, ())
    assert set(stores.cache.locations()) == {ORDERS, ITEMS, LOG, FAR}
    cached = stores.cache.get(ORDERS)
    assert cached is not None and cached.recommendation is not None
    assert cached.recommendation.actions
    assert INTERNAL not in advisor.advised


def test_an_internal_table_that_the_configuration_names_is_inspected(build: Build, stores: Stores) -> None:
    build(named=[TablePattern.parse("sales._internal")]).run_once()
    assert INTERNAL in stores.cache.locations()


def test_later_refreshes_inspect_only_changed_tables(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    build().run_once()
    advisor.advised.clear()
    assert build().run_once().refreshed == 0
    change(advisor, ITEMS, small=40)
    report = build().run_once()
    assert (report.changed, report.refreshed) == (1, 1)
    assert advisor.advised == {ITEMS: 1}
    cached = stores.cache.get(ITEMS)
    assert cached is not None and cached.status.data.count == 41


def test_the_fleets_totals_are_saved_for_each_day(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    build().run_once()
    change(advisor, ITEMS, small=40)
    del advisor.tables[FAR]
    build().run_once()
    (today,) = stores.fleet_queries.trend(clock.now.date())
    assert (today.day, today.tables, today.data_files) == (clock.now.date().isoformat(), 3, 21 + 41 + 21)


def test_a_refresh_without_changes_resets_the_age_of_the_cache(build: Build, stores: Stores) -> None:
    first = build().run_once().state
    second = build().run_once().state
    assert second.generation is not None and first.generation is not None
    assert second.generation > first.generation
    assert second.age is not None and second.age < timedelta(seconds=30)


def test_totals_and_health_reports_of_changed_tables_are_saved(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    build().run_once()
    change(advisor, ORDERS, small=40)
    clock.advance(MINUTE)
    build().run_once()
    assert [point.totals.data_files for point in stores.history.statuses(ORDERS)] in ([21, 41], [41, 21])
    assert len(stores.history.assessments(ORDERS)) == 2
    assert len(stores.history.statuses(ITEMS)) == 1


def test_a_dropped_table_is_removed_from_the_cache(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    build().run_once()
    del advisor.tables[ORDERS]
    report = build().run_once()
    assert report.removed == 1
    assert set(stores.cache.locations()) == {ITEMS, LOG, FAR}


def test_a_table_that_is_dropped_during_the_refresh_is_removed_too(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    change(advisor, ORDERS)
    advisor.broken[ORDERS] = TableNotFound("gone")
    report = build().run_once()
    assert (report.removed, report.unreadable) == (1, ())
    assert ORDERS not in stores.cache.locations()


def test_an_unreadable_table_keeps_its_entry_and_is_reported_until_it_can_be_read(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    change(advisor, ORDERS, small=40)
    advisor.broken[ORDERS] = CatalogFault("Its metadata is gone.")
    for _ in range(2):
        report = build().run_once()
        assert report.unreadable == ((ORDERS, "Its metadata is gone."),)
    cached = stores.cache.get(ORDERS)
    assert cached is not None and cached.status.data.count == 21
    advisor.broken[ORDERS] = ValueError("odd")
    assert build().run_once().unreadable == ((ORDERS, "Unexpected ValueError: odd"),)
    advisor.broken.clear()
    assert build().run_once().refreshed == 1


def test_a_table_without_a_metadata_location_is_inspected_every_time(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    advisor.add(ORDERS, metadata_location="")
    build().run_once()
    assert build().run_once().refreshed == 1


def test_a_catalog_that_does_not_answer_keeps_its_tables_and_hides_no_other(
    build: Build, stores: Stores, advisor: FakeAdvisor, catalogs: FakeCatalogs
) -> None:
    build().run_once()
    change(advisor, ORDERS)
    catalogs.silent = {"other"}
    report = build().run_once()
    assert report.silent_catalogs == {"other": "Catalog 'other' did not answer."}
    assert (report.refreshed, report.removed) == (1, 0)
    assert FAR in stores.cache.locations()


def test_tables_of_a_catalog_that_is_no_longer_configured_are_removed(
    build: Build, stores: Stores, catalogs: FakeCatalogs
) -> None:
    build().run_once()
    catalogs.catalog_names = ("lake",)
    build().run_once()
    assert FAR not in stores.cache.locations()


def test_a_failed_refresh_reports_the_age_of_the_cache(build: Build, stores: Stores, catalogs: FakeCatalogs) -> None:
    catalogs.silent = {"lake", "other"}
    with pytest.raises(RefreshFailed, match=r"No catalog answered.*It is still empty"):
        build().run_once()
    catalogs.silent = set()
    build().run_once()
    catalogs.silent = {"lake", "other"}
    with pytest.raises(RefreshFailed, match=r"Its contents are .*s old"):
        build().run_once()
    state = stores.cache.state()
    assert "No catalog answered" in state.failure
    assert state.refreshing_since is None
    assert set(stores.cache.locations()) == {ORDERS, ITEMS, LOG, FAR}


def test_nothing_is_done_while_another_process_refreshes(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    generation = stores.cache.begin("another", HOUR)
    with pytest.raises(RefreshInProgress, match="'another' is refreshing"):
        build().run_once()
    assert not advisor.advised
    stores.cache.abort(generation, "done")
    assert build().run_once().refreshed == 4


def test_a_lost_database_fails_the_refresh_and_the_next_one_catches_up(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    change(advisor, ORDERS)

    class Unavailable:
        def __getattr__(self, name: str) -> Any:
            raise EnvironmentFault("The state database could not be used.")

    with pytest.raises(RefreshFailed, match="could not be used"):
        build(status_history=Unavailable()).run_once()
    assert build().run_once().refreshed == 1


def test_a_refresh_that_cannot_be_aborted_ends_with_its_lease(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    class LostAfterBegin:
        """Begins a refresh, and is unavailable from then on."""

        def begin(self, owner: str, lease: timedelta) -> Any:
            return stores.cache.begin(owner, lease)

        def __getattr__(self, name: str) -> Any:
            raise EnvironmentFault("The state database could not be used.")

    with pytest.raises(RefreshFailed, match="age of its contents is unknown"):
        build(cache=LostAfterBegin(), options=SyncOptions(lease=timedelta(0))).run_once()
    assert build().run_once().refreshed == 4


def test_stopping_aborts_the_refresh(build: Build, stores: Stores) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        build().run_once(stop=stop)
    assert stores.cache.state().refreshing_since is None
    assert build().run_once().refreshed == 4


def test_a_table_with_an_ended_run_is_inspected_again_although_it_has_not_changed(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    advisor.advised.clear()
    now = stores.jobs.now()
    stores.history.save(
        RunRecord(
            job_id=uuid4(),
            table=ORDERS,
            action=Compact(),
            state=RunState.SUCCEEDED,
            started_at=now,
            finished_at=now + timedelta(seconds=1),
        )
    )
    build().run_once()
    assert advisor.advised == {ORDERS: 1}


def test_every_table_is_inspected_again_after_a_while_each_at_its_own_time(
    build: Build, advisor: FakeAdvisor, clock: FakeClock
) -> None:
    for number in range(20):
        advisor.add(table(f"t{number}"))
    build().run_once()
    advisor.advised.clear()
    clock.advance(12 * HOUR)
    assert build().run_once().refreshed == 0
    clock.advance(6 * HOUR)
    some = build().run_once().refreshed
    assert 4 < some < 20
    clock.advance(6 * HOUR)
    build().run_once()
    assert set(advisor.advised.values()) == {1}
    assert len(advisor.advised) == 24


def test_a_full_refresh_inspects_every_table(build: Build, advisor: FakeAdvisor) -> None:
    build().run_once()
    report = build().run_once(full=True)
    assert (report.changed, report.refreshed) == (0, 4)
