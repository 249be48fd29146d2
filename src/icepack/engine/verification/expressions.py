"""Builds Spark SQL expressions that hash columns and rows, for every type that Iceberg supports on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icepack.engine.sql import quote_identifier

# The seed of Spark's xxhash64, and the factor of the polynomial in the hash of a row; both also in BatchDigest.java.
SEED = 42
FACTOR = -7046029254386353131
# Types that Iceberg's reader on Spark does not support; its generic reader does.
UNSUPPORTED_BY_SPARK = ("time", "timestamp_ns", "timestamptz_ns", "unknown", "geometry", "geography")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafColumn:
    """A primitive column that is not inside a list or a map; manifests have bounds for these."""

    id: int
    path: tuple[str, ...]
    type: str

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def sql(self) -> str:
        return ".".join(map(quote_identifier, self.path))

    @property
    def is_floating(self) -> bool:
        return self.type in ("float", "double")


def find_leaves(schema: Mapping[str, Any]) -> list[LeafColumn]:
    return list(_walk_fields(schema["fields"], ()))


def _walk_fields(fields: Any, parents: tuple[str, ...]) -> Iterator[LeafColumn]:
    for field in fields:
        kind, path = field["type"], (*parents, field["name"])
        if isinstance(kind, str):
            yield LeafColumn(id=field["id"], path=path, type=kind)
        elif kind["type"] == "struct":
            yield from _walk_fields(kind["fields"], path)


def is_readable_by_spark(kind: Any) -> bool:
    if isinstance(kind, str):
        return not kind.startswith(UNSUPPORTED_BY_SPARK) or kind in ("timestamp", "timestamptz")
    match kind["type"]:
        case "struct":
            return all(is_readable_by_spark(field["type"]) for field in kind["fields"])
        case "list":
            return is_readable_by_spark(kind["element"])
        case "map":
            return is_readable_by_spark(kind["key"]) and is_readable_by_spark(kind["value"])
        case _:
            return False


def build_value_hash(sql: str, kind: Any, depth: int = 0) -> str:
    """Builds the 64-bit hash of a value, which distinguishes nulls, empty containers and the order of elements."""
    if isinstance(kind, str):
        return _build_primitive_hash(sql, kind)
    match kind["type"]:
        case "struct":
            nested = [(quote_identifier(field["name"]), field["type"]) for field in kind["fields"]]
            hashes = [build_value_hash(f"{sql}.{name}", field_type, depth) for name, field_type in nested]
            return f"xxhash64({', '.join([f'isnull({sql})', *hashes])})"
        case "list":
            item = f"__icepack_item_{depth}"
            element = build_value_hash(item, kind["element"], depth + 1)
            return f"xxhash64(isnull({sql}), size({sql}), transform({sql}, {item} -> {element}))"
        case "map":
            item = f"__icepack_item_{depth}"
            key = build_value_hash(f"{item}.key", kind["key"], depth + 1)
            value = build_value_hash(f"{item}.value", kind["value"], depth + 1)
            entries = f"transform(map_entries({sql}), {item} -> xxhash64({key}, {value}))"
            return f"xxhash64(isnull({sql}), size({sql}), {entries})"
        case other:
            raise ValueError(f"cannot hash a column of type {other}")


def build_row_hash(hashes: Sequence[str]) -> str:
    """Combines the hashes of columns into that of a row, by a polynomial so that swapped columns change the result."""
    polynomial = f"{SEED}L"
    for column_hash in hashes:
        polynomial = f"({polynomial} * {FACTOR}L + {column_hash})"
    return f"xxhash64({polynomial})"


def _build_primitive_hash(sql: str, kind: str) -> str:
    """Hashes floating point zeros as text, because Spark's hash of 0.0 and -0.0 is the same."""
    if kind in ("float", "double"):
        return f"if({sql} = 0, xxhash64(cast({sql} AS STRING)), xxhash64({sql}))"
    if kind == "variant":
        return f"xxhash64(cast({sql} AS STRING))"
    return f"xxhash64({sql})"
