"""Storage locations compared as places, not as strings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icepack.domain.table import TableId

OWN_PATH_PROPERTIES = (
    "write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path",
)  # fmt: skip
"""Table properties that name further places where a table's files lie."""

_EQUAL_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)


def normalize_location(location: str) -> str:
    """One spelling per place: `s3a://b/x/` and `s3://b/x` are the same, and so are `file:/x` and `/x`."""
    found = _SCHEME.fullmatch(location)
    scheme, rest = (found[1].lower(), found[2]) if found else ("file", location)
    scheme = _EQUAL_SCHEMES.get(scheme, scheme)
    if scheme == "file":
        rest = "//" + posixpath.normpath("/" + rest.lstrip("/"))
    head, tail = rest[:2], re.sub(r"/+", "/", rest[2:])
    return f"{scheme}:{head}{tail}".rstrip("/")


def is_inside(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or lies below it."""
    place, parent = normalize_location(inner), normalize_location(outer)
    return place == parent or place.startswith(parent + "/")


def overlap(one: str, other: str) -> bool:
    return is_inside(one, other) or is_inside(other, one)


def own_places(location: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Every place that a table's metadata names for its files."""
    return (location, *(properties[key] for key in OWN_PATH_PROPERTIES if properties.get(key)))


def folder_above(metadata_location: str) -> str:
    """The table's folder, where its metadata lies in `metadata/` as usual; else the folder of the metadata file."""
    folder = metadata_location.rpartition("/")[0]
    return folder.removesuffix("/metadata")


def is_place(text: str) -> bool:
    """Whether it names a folder, and not only something that a server knows by that name."""
    return text.startswith("/") or "://" in text or text.startswith("file:/")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedLocations:
    """Where a table that cannot be read, or all tables of a catalog that does not answer, are assumed to lie."""

    catalog: str
    table: TableId | None
    """None stands for the whole catalog."""
    reason: str
    """Why it is not known."""
    locations: tuple[str, ...] = ()
    """Empty where there is nothing to go by."""
    basis: str = "nothing"
    """What the assumption is made from."""

    @property
    def name(self) -> str:
        return f"Table {self.table}" if self.table is not None else f"Catalog '{self.catalog}'"

    @property
    def sentence(self) -> str:
        if not self.locations:
            return f"{self.name}: nothing is known of where its files lie. {self.reason}"
        shown = ", ".join(self.locations[:5]) + (
            f" and {len(self.locations) - 5:,} more" if len(self.locations) > 5 else ""
        )
        return f"{self.name} lies at {shown}, by {self.basis}. {self.reason}"

    @property
    def clause(self) -> str:
        if self.table is None:
            return f"tables of catalog '{self.catalog}', which does not answer, are assumed to lie"
        return f"table {self.table}, which cannot be read, is assumed to lie"

    def to_details(self) -> dict[str, Any]:
        """As the run record keeps it."""
        return {
            "catalog": self.catalog,
            "table": None if self.table is None else str(self.table),
            "locations": list(self.locations[:SHOWN_LOCATIONS]),
            "locations_count": len(self.locations),
            "basis": self.basis,
            "reason": self.reason,
            "sentence": self.sentence,
        }


SHOWN_LOCATIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocations:
    """Where all tables of all catalogs lie, as far as that is known, and what is assumed of the others."""

    known: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)
    assumed: tuple[AssumedLocations, ...] = ()

    def assumed_besides(self, table: TableId) -> tuple[AssumedLocations, ...]:
        return tuple(item for item in self.assumed if item.table != table)

    def besides(self, table: TableId) -> dict[str, str]:
        """The places of all other tables, by place, each with the end of a sentence: `where table a.b.c lies`."""
        known = {
            place: f"table {other} lies" for other, places in self.known.items() if other != table for place in places
        }
        assumed = {place: item.clause for item in self.assumed_besides(table) for place in item.locations}
        return assumed | known


def default_locations(table: TableId, roots: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """Where catalogs put a table by themselves: below a warehouse by namespace and name, or in the namespace's folder.

    Hive and Glue add `.db` to the namespace.
    """
    below = ["/".join(table.namespace), ".".join(table.namespace)]
    spelled = dict.fromkeys((*below, f"{below[-1]}.db"))
    by_root = [f"{root.rstrip('/')}/{namespace}/{table.name}" for root in roots for namespace in spelled]
    by_folder = [f"{folder.rstrip('/')}/{table.name}" for folder in folders]
    return tuple(dict.fromkeys((*by_folder, *by_root)))


def namespace_folders(table: TableId, known: Mapping[TableId, tuple[str, ...]]) -> tuple[str, ...]:
    """The folders in which the other tables of the same namespace lie under their own name."""
    siblings = {places[0].rstrip("/") for other, places in known.items() if _are_siblings(other, table) and places}
    return tuple(sorted({place.rpartition("/")[0] for place in siblings}))


def _are_siblings(one: TableId, other: TableId) -> bool:
    return (one.catalog, one.namespace) == (other.catalog, other.namespace)
