"""Health sync over a real store: only what changed is looked at, and what fails spoils nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from icepack.domain.actions import Compact
from icepack.domain.ports.queue import RefreshUnderWay
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId, TablePattern
from icepack.errors import Cancelled, CatalogFault, EnvironmentFault, TableNotFound
from icepack.service.health_sync import HealthSync, RefreshFailed, SyncTerms
from icepack.store.backend import Stores

from .parts import HOUR, ITEMS, LOG, MINUTE, ORDERS, FakeAdvisor, HandClock, table

Build = Callable[..., HealthSync]
FAR = table("far", "deep", "other")
INTERNAL = table("_internal")


@dataclass
class FakeCatalogs:
    """Catalogs that know where the advisor's tables lie, as long as they answer."""

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
def build(stores: Stores, clock: HandClock, advisor: FakeAdvisor, catalogs: FakeCatalogs) -> Build:
    clock.now = datetime.now(UTC)

    def made(**facts: Any) -> HealthSync:
        defaults: dict[str, Any] = {
            "catalogs": catalogs,
            "advisor": advisor,
            "cache": stores.cache,
            "observations": stores.history,
            "history": stores.history,
            "owner": "test",
            "clock": clock,
            "terms": SyncTerms(batch_tables=2, threads=2),
        }
        return HealthSync(**defaults | facts)

    return made


def change(advisor: FakeAdvisor, of: TableId, small: int = 30) -> None:
    location = advisor.tables[of].metadata_location
    advisor.add(of, small=small, metadata_location=f"{location}+")


def test_the_first_refresh_looks_at_all_but_the_internal_tables(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    report = build().run_once()
    assert (report.tables, report.changed, report.refreshed, report.unread) == (4, 4, 4, ())
    assert set(stores.cache.locations()) == {ORDERS, ITEMS, LOG, FAR}
    cached = stores.cache.get(ORDERS)
    assert cached is not None and cached.recommendation is not None
    assert cached.recommendation.actions
    assert INTERNAL not in advisor.asked


def test_an_internal_table_that_the_configuration_names_is_looked_at(build: Build, stores: Stores) -> None:
    build(named=[TablePattern.parse("sales._internal")]).run_once()
    assert INTERNAL in stores.cache.locations()


def test_afterwards_only_what_changed_is_looked_at(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    build().run_once()
    advisor.asked.clear()
    assert build().run_once().refreshed == 0
    change(advisor, ITEMS, small=40)
    report = build().run_once()
    assert (report.changed, report.refreshed) == (1, 1)
    assert advisor.asked == {ITEMS: 1}
    cached = stores.cache.get(ITEMS)
    assert cached is not None and cached.status.data.count == 41


def test_every_day_has_the_figures_of_the_whole_fleet(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    build().run_once()
    change(advisor, ITEMS, small=40)
    del advisor.tables[FAR]
    build().run_once()
    (today,) = stores.board.trend(clock.now.date())
    assert (today.day, today.tables, today.data_files) == (clock.now.date().isoformat(), 3, 21 + 41 + 21)


def test_a_refresh_in_which_nothing_changed_makes_the_cache_young_again(build: Build, stores: Stores) -> None:
    first = build().run_once().state
    second = build().run_once().state
    assert second.generation is not None and first.generation is not None
    assert second.generation > first.generation
    assert second.age is not None and second.age < timedelta(seconds=30)


def test_figures_and_assessments_are_kept_for_what_changed(
    build: Build, stores: Stores, advisor: FakeAdvisor, clock: HandClock
) -> None:
    build().run_once()
    change(advisor, ORDERS, small=40)
    clock.forward(MINUTE)
    build().run_once()
    assert [point.totals.data_files for point in stores.history.statuses(ORDERS)] in ([21, 41], [41, 21])
    assert len(stores.history.assessments(ORDERS)) == 2
    assert len(stores.history.statuses(ITEMS)) == 1


def test_a_table_that_was_dropped_leaves_the_cache(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    build().run_once()
    del advisor.tables[ORDERS]
    report = build().run_once()
    assert report.removed == 1
    assert set(stores.cache.locations()) == {ITEMS, LOG, FAR}


def test_a_table_that_is_dropped_just_now_leaves_the_cache_too(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    change(advisor, ORDERS)
    advisor.broken[ORDERS] = TableNotFound("gone")
    report = build().run_once()
    assert (report.removed, report.unread) == (1, ())
    assert ORDERS not in stores.cache.locations()


def test_a_table_that_cannot_be_read_keeps_its_row_and_is_reported_until_it_can(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    change(advisor, ORDERS, small=40)
    advisor.broken[ORDERS] = CatalogFault("Its metadata is gone.")
    for _ in range(2):
        report = build().run_once()
        assert report.unread == ((ORDERS, "Its metadata is gone."),)
    cached = stores.cache.get(ORDERS)
    assert cached is not None and cached.status.data.count == 21
    advisor.broken[ORDERS] = ValueError("odd")
    assert build().run_once().unread == ((ORDERS, "Unexpected ValueError: odd"),)
    advisor.broken.clear()
    assert build().run_once().refreshed == 1


def test_a_table_without_a_location_is_looked_at_every_time(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
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
    assert report.silent == {"other": "Catalog 'other' did not answer."}
    assert (report.refreshed, report.removed) == (1, 0)
    assert FAR in stores.cache.locations()


def test_a_catalog_that_is_configured_no_more_takes_its_tables_along(
    build: Build, stores: Stores, catalogs: FakeCatalogs
) -> None:
    build().run_once()
    catalogs.catalog_names = ("lake",)
    build().run_once()
    assert FAR not in stores.cache.locations()


def test_a_refresh_that_fails_says_how_old_the_cache_is(build: Build, stores: Stores, catalogs: FakeCatalogs) -> None:
    catalogs.silent = {"lake", "other"}
    with pytest.raises(RefreshFailed, match=r"No catalog answered.*There is none yet"):
        build().run_once()
    catalogs.silent = set()
    build().run_once()
    catalogs.silent = {"lake", "other"}
    with pytest.raises(RefreshFailed, match=r"What it holds is .*s old"):
        build().run_once()
    state = stores.cache.state()
    assert "No catalog answered" in state.failure
    assert state.refreshing_since is None
    assert set(stores.cache.locations()) == {ORDERS, ITEMS, LOG, FAR}


def test_while_another_refreshes_nothing_is_done(build: Build, stores: Stores, advisor: FakeAdvisor) -> None:
    generation = stores.cache.begin("another", HOUR)
    with pytest.raises(RefreshUnderWay, match="'another' is refreshing"):
        build().run_once()
    assert not advisor.asked
    stores.cache.give_up(generation, "done")
    assert build().run_once().refreshed == 4


def test_a_lost_database_fails_the_refresh_and_the_next_one_makes_up_for_it(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    change(advisor, ORDERS)

    class Away:
        def __getattr__(self, name: str) -> Any:
            raise EnvironmentFault("The state database could not be used.")

    with pytest.raises(RefreshFailed, match="could not be used"):
        build(observations=Away()).run_once()
    assert build().run_once().refreshed == 1


def test_a_database_that_stays_away_leaves_the_refresh_to_its_lease(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    class Leaving:
        """Begins a refresh, and is gone."""

        def begin(self, owner: str, lease: timedelta) -> Any:
            return stores.cache.begin(owner, lease)

        def __getattr__(self, name: str) -> Any:
            raise EnvironmentFault("The state database could not be used.")

    with pytest.raises(RefreshFailed, match="How old it is cannot be told"):
        build(cache=Leaving(), terms=SyncTerms(lease=timedelta(0))).run_once()
    assert build().run_once().refreshed == 4


def test_being_told_to_stop_gives_the_refresh_up(build: Build, stores: Stores) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Cancelled):
        build().run_once(stop=stop)
    assert stores.cache.state().refreshing_since is None
    assert build().run_once().refreshed == 4


def test_a_table_that_was_worked_on_is_looked_at_again_though_nothing_changed(
    build: Build, stores: Stores, advisor: FakeAdvisor
) -> None:
    build().run_once()
    advisor.asked.clear()
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
    assert advisor.asked == {ORDERS: 1}


def test_every_table_is_looked_at_again_once_in_a_while_each_at_its_own_time(
    build: Build, advisor: FakeAdvisor, clock: HandClock
) -> None:
    for number in range(20):
        advisor.add(table(f"t{number}"))
    build().run_once()
    advisor.asked.clear()
    clock.forward(12 * HOUR)
    assert build().run_once().refreshed == 0
    clock.forward(6 * HOUR)
    some = build().run_once().refreshed
    assert 4 < some < 20
    clock.forward(6 * HOUR)
    build().run_once()
    assert set(advisor.asked.values()) == {1}
    assert len(advisor.asked) == 24


def test_a_full_refresh_looks_at_everything(build: Build, advisor: FakeAdvisor) -> None:
    build().run_once()
    report = build().run_once(full=True)
    assert (report.changed, report.refreshed) == (0, 4)
