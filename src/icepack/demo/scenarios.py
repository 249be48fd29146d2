"""How the demo's tables came to be as they are; each function writes one table's past and registers it."""

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
from icepack.demo.sample_rows import Dice
from icepack.demo.table_files import date_back
from icepack.demo.table_history import Partitioning, TableHistory
from icepack.domain.policy import Policy

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}

Commit = tuple[datetime, list[pa.Table]]
"""When it was made, and the rows of each file it added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where and when the tables are built, and how large."""

    catalog: Catalog
    now: datetime
    scale: float

    def rows(self, at_scale_one: int) -> int:
        return max(1, round(at_scale_one * self.scale))

    def times(self, first: timedelta, last: timedelta, number: int) -> list[datetime]:
        """Evenly spread from one age to another, oldest first."""
        return [self.now - first + (first - last) * step / (number - 1) for step in range(number)]

    def appended(self, name: str, commits: Sequence[Commit], **settings: Any) -> TableHistory:
        history = TableHistory(self.catalog, name, commits[0][1][0].schema, **settings)
        for at, files in commits:
            history.append(files, at)
        return history


def streaming_appends(scene: Scene, name: str, dice: Dice) -> None:
    """A micro-batch every two hours, each with two files per country."""
    times = scene.times(50 * HOUR, 5 * MINUTE, 26)
    commits = _loads(sample_rows.page_views, dice, scene.rows(400), sample_rows.COUNTRIES * 2, times)
    scene.appended(name, commits, partitioning=Partitioning("country", IdentityTransform())).register()


def merge_on_read_updates(scene: Scene, name: str, dice: Dice) -> None:
    """Two days of orders, as they were before Spark updated them."""
    commits = _loads(sample_rows.orders, dice, scene.rows(4000), sample_rows.REGIONS, scene.times(3 * DAY, DAY, 3))
    by_region = Partitioning("region", IdentityTransform())
    scene.appended(name, commits, partitioning=by_region, properties=MERGE_ON_READ).register()


def merge_on_read_deletes(scene: Scene, name: str, dice: Dice) -> None:
    """Three days of sessions, as they were before Spark raised the table to version 3 and deleted some."""
    commits = _loads(sample_rows.sessions, dice, scene.rows(3000), sample_rows.PLATFORMS, scene.times(4 * DAY, DAY, 4))
    by_platform = Partitioning("platform", IdentityTransform())
    scene.appended(name, commits, partitioning=by_platform, properties=MERGE_ON_READ).register()


def long_history(scene: Scene, name: str, dice: Dice) -> None:
    """Replaced as a whole every ten hours for two months; old snapshots were never expired."""
    size = scene.rows(1500)
    history = TableHistory(scene.catalog, name, sample_rows.customers(dice, 1).schema)
    for number, at in enumerate(scene.times(60 * DAY, 2 * HOUR, 150)):
        history.replace(sample_rows.customers(dice, size + number), at)
        if number == 40:
            history.tag("quarter_close")
        if number == 75:
            history.branch("audit")
            history.append([sample_rows.customers(dice, max(size // 20, 1))], at + HOUR, "audit")
    history.register()


def single_file_loads(scene: Scene, name: str, dice: Dice) -> None:
    """A file from one branch office a day; snapshots are expired, manifests were never merged."""
    size = scene.rows(1500)
    commits = [
        (at, [sample_rows.payments(dice, size, 1 + number * size, f"office-{number % 30 + 1:02}", at - 30 * DAY, at)])
        for number, at in enumerate(scene.times(120 * DAY, HOUR, 120))
    ]
    by_office = Partitioning("office", IdentityTransform())
    scene.appended(name, commits, partitioning=by_office, kept_from=scene.now - 6 * DAY).register()


def failed_writes(scene: Scene, name: str, dice: Dice) -> None:
    """Jobs that died before their commit left files behind that no snapshot knows."""
    commits = _loads(sample_rows.shipments, dice, scene.rows(2000), sample_rows.CARRIERS, scene.times(6 * DAY, HOUR, 5))
    history = scene.appended(name, commits, partitioning=Partitioning("carrier", IdentityTransform()))
    history.register()
    written = sorted(history.folder.glob("data/*/*.parquet"))
    for number, at in enumerate(scene.times(40 * DAY, 10 * DAY, 25)):
        orphan = written[number].with_name(f"{number:05d}-{number // 5}-{uuid4()}-0-00001.parquet")
        shutil.copyfile(written[number], orphan)
        date_back(orphan, at)


def recent_days(scene: Scene, name: str, dice: Dice) -> None:
    """Compacted every night until a few days ago; the days since then are full of small files."""
    last_closed = _midnight(scene.now - Policy().open_partition_grace) - DAY
    bad = [last_closed - number * DAY for number in (2, 1, 0)]
    good = [bad[0] - number * DAY for number in range(27, 0, -1)]
    commits = [(bad[0], [sample_rows.sensor_readings(dice, scene.rows(20_000), day, day + DAY) for day in good])]
    small = scene.rows(400)
    for day in bad:
        for start, end in pairwise([day, day + DAY / 2, day + DAY]):
            commits.append((end, [sample_rows.sensor_readings(dice, small, start, end) for _ in range(20)]))
    commits.append(
        (scene.now, [sample_rows.sensor_readings(dice, small, _midnight(scene.now), scene.now) for _ in range(8)])
    )
    scene.appended(name, commits, partitioning=Partitioning("read_at", DayTransform(), "read_day")).register()


def well_kept(scene: Scene, name: str, dice: Dice) -> None:
    """A large file now and then."""
    size = scene.rows(5000)
    times = scene.times(5 * DAY, HOUR, 3)
    commits = [(at, [sample_rows.products(dice, size, 1 + number * size)]) for number, at in enumerate(times)]
    scene.appended(name, commits).register()


def _loads(
    make: sample_rows.Make, dice: Dice, size: int, partitions: Sequence[str], times: Sequence[datetime]
) -> list[Commit]:
    """A commit at each time but the first, with a file for each partition and what happened since the time before."""
    first = count(1, size)
    return [
        (end, [make(dice, size, next(first), partition, start, end) for partition in partitions])
        for start, end in pairwise(times)
    ]


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC), time(), UTC)
