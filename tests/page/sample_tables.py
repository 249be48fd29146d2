"""Writes made-up tables into the table cache of a state database: many tables, or tables with hostile names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from icepack.domain.health import assess_health
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.files import PartitionKey
from icepack.domain.policy import Policy
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.recommendation import Situation, recommend
from icepack.domain.status import (
    DataFileStatus,
    DeleteFileTotals,
    DeleteStatus,
    ManifestStatus,
    PartitionStatus,
    Ref,
    SizeBucket,
    SmallFiles,
    SnapshotEntry,
    SnapshotStatus,
    TableStatus,
)
from icepack.domain.table import TableId
from icepack.domain.units import MIB
from icepack.store.backend import open_stores

LEASE = timedelta(minutes=10)


def observed(table: TableId, files: int, deletes: int, now: datetime) -> CachedTable:
    """A cached table as health sync would write it."""
    size = files * 2 * MIB
    head = SnapshotEntry(snapshot_id=1, parent_id=None, committed_at=now - timedelta(hours=3), operation="append")
    partition = PartitionStatus(
        key=PartitionKey(0, f"part={table.name}"),
        data_files=files,
        bytes=size,
        records=files * 1000,
        small_files=files,
        small_bytes=size,
        last_written_at=head.committed_at,
    )
    status = TableStatus(
        table=table,
        observed_at=now,
        metadata_location=f"file:///nowhere/{files}.json",
        table_uuid="6f1d6c4a-8d5e-4c1e-9d57-0f6f2c9a1b2c",
        format_version=2,
        location="file:///nowhere",
        snapshot_id=1,
        data=DataFileStatus(
            count=files,
            bytes=size,
            records=files * 1000,
            histogram=(SizeBucket(below_bytes=8 * MIB, count=files, bytes=size),),
            small=(SmallFiles(threshold_bytes=32 * MIB, count=files, bytes=size),),
        ),
        deletes=DeleteStatus(position=DeleteFileTotals(files=deletes, bytes=deletes * 900, records=deletes * 10)),
        partitions=(partition,),
        snapshots=SnapshotStatus(
            count=1,
            oldest_at=head.committed_at,
            newest_at=head.committed_at,
            refs=(
                Ref(name="main", kind="branch", snapshot_id=1),
                Ref(name=f"tag {table.name}", kind="tag", snapshot_id=1),
            ),
            entries=(head,),
        ),
        manifests=ManifestStatus(count=1, bytes=8000, entries=files),
    )
    health = assess_health(status, now)
    situation = Situation(status=status, health=health, policy=Policy(), history=(), model=CostModel(), now=now)
    return CachedTable(status=status, health=health, recommendation=recommend(situation))


def many(count: int) -> Iterable[CachedTable]:
    random, now = Random(7), datetime.now(UTC)
    for number in range(count):
        table = TableId("lake", (f"team{number % 50}",), f"t{number}")
        yield observed(table, random.choice((1, 2, 3, 8, 30, 60, 400)), random.choice((0, 0, 0, 5)), now)


def seed(url: str, tables: Iterable[CachedTable]) -> None:
    stores = open_stores(url)
    try:
        generation = stores.cache.begin("tests", LEASE)
        batch: list[CachedTable] = []
        for item in tables:
            batch.append(item)
            if len(batch) == 500:
                stores.cache.write(generation, batch)
                batch = []
        stores.cache.write(generation, batch)
        stores.cache.swap(generation)
    finally:
        stores.close()


def with_sentence(item: CachedTable, sentence: str) -> CachedTable:
    """The same table with this text in every issue and recommendation."""
    issues = tuple(replace(issue, sentence=sentence) for issue in item.health.issues)
    advice = item.recommendation
    assert advice is not None
    actions = tuple(replace(action, reason=sentence) for action in advice.actions)
    skipped = tuple(replace(one, reason=sentence) for one in advice.skipped)
    return replace(
        item,
        health=replace(item.health, issues=issues),
        recommendation=replace(advice, actions=actions, skipped=skipped),
    )
