"""Ports to the catalogs: finding tables and reading their metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from icepack.domain.actions import ExpireSnapshots
from icepack.domain.locations import TableLocations
from icepack.domain.plan.expression import Expression
from icepack.domain.plan.files import FileListing, PartitionKey
from icepack.domain.run import CommitFacts
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeThresholds:
    """File sizes to measure a table by if its own properties do not set them."""

    target_file_bytes: int
    small_file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPreview:
    """What an expiry would remove, computed from the manifests. `bytes` does not include manifest lists."""

    snapshot_ids: tuple[int, ...]
    data_files: int
    delete_files: int
    manifests: int
    manifest_lists: int
    bytes: int
    statistics_files: int = 0

    @property
    def files(self) -> int:
        return self.data_files + self.delete_files + self.manifests + self.manifest_lists + self.statistics_files


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredTables:
    """The tables of the catalogs that answered."""

    tables: tuple[TableId, ...]
    silent_catalogs: Mapping[str, str] = field(default_factory=dict)
    """Catalogs that did not answer, by name, each with the reason."""


class Discovery(Protocol):
    """Finds tables."""

    def tables(self, catalog: str | None = None) -> list[TableId]:
        """Lists the tables; raises CatalogFault if a catalog does not answer."""
        ...

    def discover(self) -> DiscoveredTables:
        """Lists the tables of every catalog that answers."""
        ...

    def exists(self, table: TableId) -> bool: ...

    def locations(self) -> TableLocations:
        """Returns the storage locations of every table in every catalog.

        Orphan removal needs them all, so that it never deletes another table's files. If a table cannot be read or a
        catalog does not answer, the result contains the locations that are assumed for it.
        """
        ...


class MetadataInspector(Protocol):
    """Reads table metadata, never data files."""

    def properties(self, table: TableId) -> Mapping[str, str]: ...

    def inspect(self, table: TableId) -> TableStatus: ...

    def inspect_with_thresholds(
        self, table: TableId, thresholds_for: Callable[[TableStatus], SizeThresholds]
    ) -> tuple[TableStatus, TableStatus]:
        """Reads the table once; returns its status by its own sizes and by the thresholds chosen for it."""
        ...

    def files(self, table: TableId, where: Expression | None = None) -> FileListing: ...

    def matching_partitions(self, table: TableId, where: Expression) -> frozenset[PartitionKey]: ...

    def preview_expiry(self, table: TableId, action: ExpireSnapshots, now: datetime) -> ExpiryPreview: ...


class CommitReader(Protocol):
    """Reads what commits changed."""

    def commits_of(self, table: TableId, job_id: UUID) -> Sequence[CommitFacts]: ...
