"""The scenarios of the demo tables: each function writes the history of one table and registers it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import count, pairwise
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.transforms import DayTransform, IdentityTransform

from icepack.demo import sample_rows
from icepack.demo.sample_rows import RandomData
from icepack.demo.table_files import set_modified_time
from icepack.demo.table_history import Partitioning, TableHistory
from icepack.domain.policy import Policy

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}

# The time of a commit, and the rows of each file that it added.
Commit = tuple[datetime, list[pa.Table]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The catalog in which tables are built, the current time, and the scale of the data."""

    catalog: Catalog
    now: datetime
    scale: float

    def rows(self, at_full_scale: int) -> int:
        return max(1, round(at_full_scale * self.scale))

    def times(self, first: timedelta, last: timedelta, number: int) -> list[datetime]:
        """Returns evenly spaced times between two ages, oldest first."""
        return [self.now - first + (first - last) * step / (number - 1) for step in range(number)]

    def append_all(self, name: str, commits: Sequence[Commit], **settings: Any) -> TableHistory:
        history = TableHistory(self.catalog, name, commits[0][1][0].schema, **settings)
        for at, files in commits:
            history.append(files, at)
        return history


def streaming_appends(context: BuildContext, name: str, random_data: RandomData) -> None:
    """A micro-batch every two hours, each with two files per country."""
    times = context.times(50 * HOUR, 5 * MINUTE, 26)
    commits = _build_commits(sample_rows.page_views, random_data, context.rows(400), sample_rows.COUNTRIES * 2, times)
    context.append_all(name, commits, partitioning=Partitioning("country", IdentityTransform())).register()


def merge_on_read_updates(context: BuildContext, name: str, random_data: RandomData) -> None:
    """Two days of orders, before Spark updates them."""
    commits = _build_commits(
        sample_rows.orders, random_data, context.rows(4000), sample_rows.REGIONS, context.times(3 * DAY, DAY, 3)
    )
    by_region = Partitioning("region", IdentityTransform())
    context.append_all(name, commits, partitioning=by_region, properties=MERGE_ON_READ).register()


def merge_on_read_deletes(context: BuildContext, name: str, random_data: RandomData) -> None:
    """Three days of sessions, before Spark upgrades the table to format version 3 and deletes some."""
    commits = _build_commits(
        sample_rows.sessions, random_data, context.rows(3000), sample_rows.PLATFORMS, context.times(4 * DAY, DAY, 4)
    )
    by_platform = Partitioning("platform", IdentityTransform())
    context.append_all(name, commits, partitioning=by_platform, properties=MERGE_ON_READ).register()


def long_history(context: BuildContext, name: str, random_data: RandomData) -> None:
    """All rows are replaced every ten hours for two months, and old snapshots were never expired."""
    size = context.rows(1500)
    history = TableHistory(context.catalog, name, sample_rows.customers(random_data, 1).schema)
    for number, at in enumerate(context.times(60 * DAY, 2 * HOUR, 150)):
        history.replace(sample_rows.customers(random_data, size + number), at)
        if number == 40:
            history.tag("quarter_close")
        if number == 75:
            history.branch("audit")
            history.append([sample_rows.customers(random_data, max(size // 20, 1))], at + HOUR, "audit")
    history.register()


def single_file_loads(context: BuildContext, name: str, random_data: RandomData) -> None:
    """One file from one branch office per day; snapshots are expired, but manifests were never merged."""
    size = context.rows(1500)
    commits = [
        (
            at,
            [
                sample_rows.payments(
                    random_data, size, 1 + number * size, f"office-{number % 30 + 1:02}", at - 30 * DAY, at
                )
            ],
        )
        for number, at in enumerate(context.times(120 * DAY, HOUR, 120))
    ]
    by_office = Partitioning("office", IdentityTransform())
    context.append_all(name, commits, partitioning=by_office, kept_from=context.now - 6 * DAY).register()


def failed_writes(context: BuildContext, name: str, random_data: RandomData) -> None:
    """Jobs that failed before their commit left files behind that no snapshot refers to."""
    commits = _build_commits(
        sample_rows.shipments, random_data, context.rows(2000), sample_rows.CARRIERS, context.times(6 * DAY, HOUR, 5)
    )
    history = context.append_all(name, commits, partitioning=Partitioning("carrier", IdentityTransform()))
    history.register()
    written = sorted(history.folder.glob("data/*/*.parquet"))
    for number, at in enumerate(context.times(40 * DAY, 10 * DAY, 25)):
        orphan = written[number].with_name(f"{number:05d}-{number // 5}-{uuid4()}-0-00001.parquet")
        shutil.copyfile(written[number], orphan)
        set_modified_time(orphan, at)


def recent_days(context: BuildContext, name: str, random_data: RandomData) -> None:
    """Compacted every night until a few days ago; the days since then are full of small files."""
    last_closed = _midnight(context.now - Policy().open_partition_grace) - DAY
    bad = [last_closed - number * DAY for number in (2, 1, 0)]
    good = [bad[0] - number * DAY for number in range(27, 0, -1)]
    commits = [
        (bad[0], [sample_rows.sensor_readings(random_data, context.rows(20_000), day, day + DAY) for day in good])
    ]
    small = context.rows(400)
    for day in bad:
        for start, end in pairwise([day, day + DAY / 2, day + DAY]):
            commits.append((end, [sample_rows.sensor_readings(random_data, small, start, end) for _ in range(20)]))
    commits.append(
        (
            context.now,
            [sample_rows.sensor_readings(random_data, small, _midnight(context.now), context.now) for _ in range(8)],
        )
    )
    context.append_all(name, commits, partitioning=Partitioning("read_at", DayTransform(), "read_day")).register()


def large_files(context: BuildContext, name: str, random_data: RandomData) -> None:
    """A healthy table: occasional commits of one large file."""
    size = context.rows(5000)
    times = context.times(5 * DAY, HOUR, 3)
    commits = [(at, [sample_rows.products(random_data, size, 1 + number * size)]) for number, at in enumerate(times)]
    context.append_all(name, commits).register()


def _build_commits(
    generate: sample_rows.RowGenerator,
    random_data: RandomData,
    size: int,
    partitions: Sequence[str],
    times: Sequence[datetime],
) -> list[Commit]:
    """Builds a commit at each time but the first, with one file per partition for the period since the time before."""
    first = count(1, size)
    return [
        (end, [generate(random_data, size, next(first), partition, start, end) for partition in partitions])
        for start, end in pairwise(times)
    ]


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC), time(), UTC)
