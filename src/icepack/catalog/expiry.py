"""The dry run of snapshot expiry, computed from the manifests, for Iceberg has none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from icepack.catalog.manifests import DATA, ManifestReader, live
from icepack.domain.ports.engine import ExpiryPreview

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def preview(loaded: Table, reader: ManifestReader, expired: Iterable[int]) -> ExpiryPreview:
    """What only the expired snapshots refer to."""
    gone = frozenset(expired)
    leaving, staying = _manifests(loaded, gone, leaving=True), _manifests(loaded, gone, leaving=False)
    only_leaving = {path: manifest for path, manifest in leaving.items() if path not in staying}
    unreferenced = _unreferenced(
        live(reader.entries(loaded.io, only_leaving.values())), live(reader.entries(loaded.io, staying.values()))
    )
    data = unreferenced.filter(pc.equal(unreferenced["content"], DATA))
    statistics = _statistics(loaded, gone)
    return ExpiryPreview(
        snapshot_ids=tuple(sorted(gone)),
        data_files=data.num_rows,
        delete_files=unreferenced.num_rows - data.num_rows,
        manifests=len(only_leaving),
        manifest_lists=len(gone),
        bytes=int(pc.sum(unreferenced["bytes"]).as_py() or 0)
        + sum(manifest.manifest_length for manifest in only_leaving.values())
        + sum(statistics.values()),
        statistics_files=len(statistics),
    )


def _manifests(loaded: Table, gone: frozenset[int], *, leaving: bool) -> dict[str, ManifestFile]:
    return {
        manifest.manifest_path: manifest
        for snapshot in loaded.metadata.snapshots
        if (snapshot.snapshot_id in gone) == leaving
        for manifest in snapshot.manifests(loaded.io)
    }


def _statistics(loaded: Table, gone: frozenset[int]) -> dict[str, int]:
    """Paths and sizes of the statistics files that only the expired snapshots have."""
    known = [*loaded.metadata.statistics, *loaded.metadata.partition_statistics]
    staying = {file.statistics_path for file in known if file.snapshot_id not in gone}
    leaving = [file for file in known if file.snapshot_id in gone and file.statistics_path not in staying]
    return {file.statistics_path: file.file_size_in_bytes for file in leaving}


def _unreferenced(leaving: pa.Table, staying: pa.Table) -> pa.Table:
    chosen = leaving.filter(pc.invert(pc.is_in(leaving["path"], staying["path"].combine_chunks())))
    unique = chosen.group_by("path", use_threads=False).aggregate([("content", "min"), ("file_bytes", "max")])
    return unique.rename_columns({"content_min": "content", "file_bytes_max": "bytes"})
