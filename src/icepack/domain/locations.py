"""Compares storage locations by what they refer to, not as strings, and tracks where tables are stored."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icepack.domain.table import TableId

# Table properties that name further locations of a table's files.
OWN_PATH_PROPERTIES = (
    "write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path",
)  # fmt: skip

# The most locations that a run record lists for one table or catalog.
MAX_LISTED_LOCATIONS = 100

_EQUAL_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)


def normalize_location(location: str) -> str:
    """Returns one spelling per location: `s3a://b/x/` equals `s3://b/x`, and `file:/x` equals `/x`."""
    found = _SCHEME.fullmatch(location)
    scheme, rest = (found[1].lower(), found[2]) if found else ("file", location)
    scheme = _EQUAL_SCHEMES.get(scheme, scheme)
    if scheme == "file":
        rest = "//" + posixpath.normpath("/" + rest.lstrip("/"))
    head, tail = rest[:2], re.sub(r"/+", "/", rest[2:])
    return f"{scheme}:{head}{tail}".rstrip("/")


def is_inside(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or a location below it."""
    child, parent = normalize_location(inner), normalize_location(outer)
    return child == parent or child.startswith(parent + "/")


def locations_overlap(one: str, other: str) -> bool:
    return is_inside(one, other) or is_inside(other, one)


def list_table_locations(location: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Lists every location that a table's metadata names for its files."""
    return (location, *(properties[key] for key in OWN_PATH_PROPERTIES if properties.get(key)))


def infer_table_location(metadata_location: str) -> str:
    """Returns the folder above `metadata/`, where tables usually are; otherwise the folder of the metadata file."""
    folder = metadata_location.rpartition("/")[0]
    return folder.removesuffix("/metadata")


def is_location(text: str) -> bool:
    """Whether the text is a path or URI, as opposed to a name that only a catalog server can resolve."""
    return text.startswith("/") or "://" in text or text.startswith("file:/")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedLocations:
    """Where an unreadable table, or all tables of an unavailable catalog, are assumed to be stored."""

    catalog: str
    # None means the whole catalog.
    table: TableId | None
    # Why the locations are not known.
    reason: str
    # Empty if there is nothing to derive them from.
    locations: tuple[str, ...] = ()
    # What the assumption is based on.
    basis: str = "nothing"

    @property
    def name(self) -> str:
        return f"Table {self.table}" if self.table is not None else f"Catalog '{self.catalog}'"

    @property
    def sentence(self) -> str:
        if not self.locations:
            return f"{self.name}: the location of its files is unknown. {self.reason}"
        more = f" and {len(self.locations) - 5:,} more" if len(self.locations) > 5 else ""
        listed = ", ".join(self.locations[:5]) + more
        return f"{self.name} is assumed to be stored at {listed}, based on {self.basis}. {self.reason}"

    @property
    def clause(self) -> str:
        """The end of a sentence that begins with `where`."""
        if self.table is None:
            return f"tables of catalog '{self.catalog}', which is unavailable, are assumed to be stored"
        return f"table {self.table}, which cannot be read, is assumed to be stored"

    def to_details(self) -> dict[str, Any]:
        """Returns the JSON that the run record keeps in `details.assumed_locations`."""
        return {
            "catalog": self.catalog,
            "table": None if self.table is None else str(self.table),
            "locations": list(self.locations[:MAX_LISTED_LOCATIONS]),
            "locations_count": len(self.locations),
            "basis": self.basis,
            "reason": self.reason,
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocations:
    """The locations of all readable tables in all catalogs, and the assumed locations of the others."""

    known: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)
    assumed: tuple[AssumedLocations, ...] = ()

    def assumed_except(self, table: TableId) -> tuple[AssumedLocations, ...]:
        return tuple(item for item in self.assumed if item.table != table)

    def others(self, table: TableId) -> dict[str, str]:
        """Maps the locations of all other tables to the end of a sentence: `where table a.b.c is stored`."""
        known = {
            location: f"table {other} is stored"
            for other, locations in self.known.items()
            if other != table
            for location in locations
        }
        assumed = {location: item.clause for item in self.assumed_except(table) for location in item.locations}
        return assumed | known


def default_locations(table: TableId, roots: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """Lists where catalogs create a table by default: in the namespace's folder, or below a warehouse by its name.

    Hive and Glue add `.db` to the namespace.
    """
    dotted = ".".join(table.namespace)
    namespaces = dict.fromkeys(("/".join(table.namespace), dotted, f"{dotted}.db"))
    by_root = [f"{root.rstrip('/')}/{namespace}/{table.name}" for root in roots for namespace in namespaces]
    by_folder = [f"{folder.rstrip('/')}/{table.name}" for folder in folders]
    return tuple(dict.fromkeys((*by_folder, *by_root)))


def namespace_folders(table: TableId, known: Mapping[TableId, tuple[str, ...]]) -> tuple[str, ...]:
    """Lists the parent folders of the other tables in the same namespace."""
    siblings = {
        locations[0].rstrip("/") for other, locations in known.items() if _are_siblings(other, table) and locations
    }
    return tuple(sorted({location.rpartition("/")[0] for location in siblings}))


def _are_siblings(one: TableId, other: TableId) -> bool:
    return (one.catalog, one.namespace) == (other.catalog, other.namespace)
