"""The dry run of snapshot expiry, computed from the manifests because Iceberg offers no dry run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from icepack.catalog.manifests import DATA, ManifestReader, filter_live
from icepack.domain.ports.catalog import ExpiryPreview

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def preview_expiry(loaded: Table, reader: ManifestReader, expired: Iterable[int]) -> ExpiryPreview:
    """Counts the files that only the expired snapshots reference."""
    expired_ids = frozenset(expired)
    retained = _manifests(loaded, expired_ids, are_expired=False)
    removed = _manifests(loaded, expired_ids, are_expired=True)
    removed = {path: manifest for path, manifest in removed.items() if path not in retained}
    unreferenced = _unreferenced(
        filter_live(reader.entries(loaded.io, removed.values())),
        filter_live(reader.entries(loaded.io, retained.values())),
    )
    data = unreferenced.filter(pc.equal(unreferenced["content"], DATA))
    statistics = _statistics(loaded, expired_ids)
    return ExpiryPreview(
        snapshot_ids=tuple(sorted(expired_ids)),
        data_files=data.num_rows,
        delete_files=unreferenced.num_rows - data.num_rows,
        manifests=len(removed),
        manifest_lists=len(expired_ids),
        bytes=int(pc.sum(unreferenced["bytes"]).as_py() or 0)
        + sum(manifest.manifest_length for manifest in removed.values())
        + sum(statistics.values()),
        statistics_files=len(statistics),
    )


def _manifests(loaded: Table, expired_ids: frozenset[int], *, are_expired: bool) -> dict[str, ManifestFile]:
    return {
        manifest.manifest_path: manifest
        for snapshot in loaded.metadata.snapshots
        if (snapshot.snapshot_id in expired_ids) == are_expired
        for manifest in snapshot.manifests(loaded.io)
    }


def _statistics(loaded: Table, expired_ids: frozenset[int]) -> dict[str, int]:
    """Paths and sizes of the statistics files that only the expired snapshots reference."""
    known = [*loaded.metadata.statistics, *loaded.metadata.partition_statistics]
    retained = {file.statistics_path for file in known if file.snapshot_id not in expired_ids}
    removed = [file for file in known if file.snapshot_id in expired_ids and file.statistics_path not in retained]
    return {file.statistics_path: file.file_size_in_bytes for file in removed}


def _unreferenced(removed: pa.Table, retained: pa.Table) -> pa.Table:
    unreferenced = removed.filter(pc.invert(pc.is_in(removed["path"], retained["path"].combine_chunks())))
    unique = unreferenced.group_by("path", use_threads=False).aggregate([("content", "min"), ("file_bytes", "max")])
    return unique.rename_columns({"content_min": "content", "file_bytes_max": "bytes"})
