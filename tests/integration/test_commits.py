from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotCommitReader
from icepack.catalog.manifest_cache import MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.domain.run import sum_sizes
from icepack.domain.status import SizeBucket
from icepack.domain.table import TableId
from icepack.domain.units import MIB


def test_added_files_are_counted_by_size(tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("sales")
    job, rows = uuid4(), pa.table({"id": [1, 2, 3]})
    orders = catalog.create_table("sales.orders", rows.schema)
    orders.append(rows)
    for _ in range(2):
        orders.append(rows, snapshot_properties={"icepack.job-id": str(job)})
    reader = SnapshotCommitReader(Catalogs({"lake": properties}), ManifestReader(MemoryManifestCache()))
    commits = reader.commits_of(TableId("lake", ("sales",), "orders"), job)
    assert [[(size.below_bytes, size.count) for size in commit.added_sizes] for commit in commits] == [[(MIB, 1)]] * 2
    (summed,) = sum_sizes(commit.added_sizes for commit in commits)
    assert (summed.count, summed.bytes) == (2, sum(commit.added_bytes for commit in commits))


def test_summed_distributions_are_sorted_by_size() -> None:
    open_ended = SizeBucket(below_bytes=None, count=1, bytes=9)
    small = SizeBucket(below_bytes=MIB, count=2, bytes=3)
    assert sum_sizes([(open_ended,), (small, open_ended)]) == (small, SizeBucket(below_bytes=None, count=2, bytes=18))
    assert sum_sizes([]) == ()
