"""Spark SQL that turns a column into 64-bit hashes and counts, for every type that Iceberg has on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icepack.engine.sql import identifier

# Where Spark's xxhash64 starts, and the factor of the polynomial in a row's hash; both as in BatchDigest.java.
SEED = 42
FACTOR = -7046029254386353131
UNREADABLE = ("time", "timestamp_ns", "timestamptz_ns", "unknown", "geometry", "geography")
"""Types that Iceberg's Spark reader does not read; the generic reader does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A primitive column that is not inside a list or a map: the ones that manifests keep bounds of."""

    id: int
    path: tuple[str, ...]
    type: str

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        return ".".join(map(identifier, self.path))

    @property
    def is_floating(self) -> bool:
        return self.type in ("float", "double")


def leaves(schema: Mapping[str, Any]) -> list[Leaf]:
    return list(_leaves(schema["fields"], ()))


def _leaves(fields: Any, above: tuple[str, ...]) -> Iterator[Leaf]:
    for field in fields:
        kind, path = field["type"], (*above, field["name"])
        if isinstance(kind, str):
            yield Leaf(id=field["id"], path=path, type=kind)
        elif kind["type"] == "struct":
            yield from _leaves(kind["fields"], path)


def is_readable_by_spark(kind: Any) -> bool:
    if isinstance(kind, str):
        return not kind.startswith(UNREADABLE) or kind in ("timestamp", "timestamptz")
    match kind["type"]:
        case "struct":
            return all(is_readable_by_spark(part["type"]) for part in kind["fields"])
        case "list":
            return is_readable_by_spark(kind["element"])
        case "map":
            return is_readable_by_spark(kind["key"]) and is_readable_by_spark(kind["value"])
        case _:
            return False


def value_hash(sql: str, kind: Any, depth: int = 0) -> str:
    """A 64-bit hash of one value. Nulls, empty containers and the order of elements are told apart at every depth."""
    if isinstance(kind, str):
        return _primitive(sql, kind)
    match kind["type"]:
        case "struct":
            parts = [value_hash(f"{sql}.{identifier(part['name'])}", part["type"], depth) for part in kind["fields"]]
            return f"xxhash64({', '.join([f'isnull({sql})', *parts])})"
        case "list":
            item = f"__icepack_item_{depth}"
            inside = value_hash(item, kind["element"], depth + 1)
            return f"xxhash64(isnull({sql}), size({sql}), transform({sql}, {item} -> {inside}))"
        case "map":
            item = f"__icepack_item_{depth}"
            key = value_hash(f"{item}.key", kind["key"], depth + 1)
            value = value_hash(f"{item}.value", kind["value"], depth + 1)
            entries = f"transform(map_entries({sql}), {item} -> xxhash64({key}, {value}))"
            return f"xxhash64(isnull({sql}), size({sql}), {entries})"
        case other:
            raise ValueError(f"a column of type {other} cannot be hashed")


def row_hash(hashes: Sequence[str]) -> str:
    """A 64-bit hash of a row, from the hashes of its columns: of a polynomial, so that columns cannot be swapped."""
    joined = f"{SEED}L"
    for each in hashes:
        joined = f"({joined} * {FACTOR}L + {each})"
    return f"xxhash64({joined})"


def _primitive(sql: str, kind: str) -> str:
    """Spark hashes 0.0 and -0.0 alike; as text they differ."""
    if kind in ("float", "double"):
        return f"if({sql} = 0, xxhash64(cast({sql} AS STRING)), xxhash64({sql}))"
    if kind == "variant":
        return f"xxhash64(cast({sql} AS STRING))"
    return f"xxhash64({sql})"
