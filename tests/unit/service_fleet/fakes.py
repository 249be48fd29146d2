"""Fakes for the tests of scheduler, orchestrator and health sync."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from icepack.domain.action_parameters import complete_action
from icepack.domain.actions import Action, ActionKind, Strategy
from icepack.domain.health import assess_health
from icepack.domain.job import Claim, JobFilter, JobOutcome, JobState
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.files import PartitionKey
from icepack.domain.policy import Policy, resolve_policy
from icepack.domain.recommendation import Situation, recommend
from icepack.domain.status import DataFileStatus, PartitionStatus, SnapshotStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import MIB
from icepack.service.advice import Advice
from icepack.store.backend import Stores

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MODEL = CostModel()


def table(name: str, namespace: str = "sales", catalog: str = "lake") -> TableId:
    return TableId(catalog, (namespace,), name)


ORDERS, ITEMS, LOG = table("orders"), table("items"), table("log", "ops")


@dataclass
class FakeClock:
    """A clock that moves only when it is set."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now

    def advance(self, span: timedelta) -> datetime:
        self.now += span
        return self.now


def status(of: TableId, *, small: int = 0, at: datetime = NOON, **facts: Any) -> TableStatus:
    """One full file and some small ones; the small ones always have the same total size, so more of them are worse."""
    small_bytes = 40 * MIB if small else 0
    partition = PartitionStatus(
        key=PartitionKey(0, ""),
        data_files=small + 1,
        bytes=500 * MIB + small_bytes,
        records=1000,
        small_files=small,
        small_bytes=small_bytes,
    )
    defaults: dict[str, Any] = {
        "observed_at": at,
        "metadata_location": f"file:/w/{of.name}/1.json",
        "table_uuid": of.name,
        "format_version": 2,
        "location": f"file:/w/{of.name}",
        "snapshot_id": 1,
        "snapshots": SnapshotStatus(count=1),
        "data": DataFileStatus(count=small + 1, bytes=partition.bytes, records=1000),
        "partitions": (partition,),
    }
    return TableStatus(table=of, **defaults | facts)


@dataclass
class FakeAdvisor:
    """Gives advice like the service, for tables in a dictionary; recommends only compaction."""

    clock: FakeClock
    tables: dict[TableId, TableStatus] = field(default_factory=dict)
    policy: Policy = field(default_factory=lambda: Policy(actions=(ActionKind.COMPACT,)))
    broken: dict[TableId, Exception] = field(default_factory=dict)
    advised: Counter[TableId] = field(default_factory=Counter)

    def add(self, of: TableId, **facts: Any) -> TableId:
        self.tables[of] = status(of, **facts)
        return of

    def names(self) -> list[TableId]:
        return sorted(self.tables)

    def advise(self, of: TableId) -> Advice:
        self.advised[of] += 1
        if of in self.broken:
            raise self.broken[of]
        observed = replace(self.tables[of], observed_at=self.clock())
        policy = resolve_policy(self.policy, (), of, observed.properties)
        health = assess_health(observed, self.clock())
        situation = Situation(status=observed, health=health, policy=policy, history=(), model=MODEL, now=self.clock())
        return Advice(status=observed, health=health, policy=policy, recommendation=recommend(situation))

    def prepare(self, of: TableId, kind: ActionKind, given: Mapping[str, Any]) -> Action:
        advice = self.advise(of)
        return complete_action(kind, given, advice.status, advice.policy, Strategy.SMALL_FILES, self.clock())


def list_queued(stores: Stores, of: TableId | None = None) -> list[Any]:
    """Returns the queued jobs, oldest first."""
    page = stores.jobs.list_jobs(JobFilter(table=of, states=frozenset({JobState.QUEUED})), limit=500)
    return list(reversed(page.jobs))


def finish_all(stores: Stores, state: JobState = JobState.SUCCEEDED) -> int:
    """Claims all queued jobs and ends them in this state."""
    count = 0
    while (claim := stores.jobs.claim("w", timedelta(minutes=1))) is not None:
        finish(stores, claim, state)
        count += 1
    return count


def finish(stores: Stores, claim: Claim, state: JobState) -> None:
    stores.jobs.finish(claim, JobOutcome(state=state))
