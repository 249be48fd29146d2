"""Digests of columnar batches: the same figures as SQL computes, for a fraction of the CPU.

Iceberg's reader on Spark hands out columnar batches where all columns are primitive. `BatchDigest.java` hashes them
column by column on the executors.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from icepack.engine.java.classes import new_instance, ship_class
from icepack.engine.sql import identifier
from icepack.engine.verification.bounds import FileMetrics
from icepack.engine.verification.digest import ColumnDigest, Digest
from icepack.engine.verification.expressions import Leaf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Of each column: nulls, two hashes, NaNs, values outside of the bounds.
MEASURES = 5
# How BatchDigest.java reads a column of an Iceberg type.
KINDS = {
    "boolean": "boolean",
    "int": "int",
    "date": "int",
    "long": "long",
    "timestamp": "long",
    "timestamptz": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_UNSIGNED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class ColumnMeasures:
    nulls: int
    hash_1: int
    hash_2: int
    nans: int
    outside_bounds: int


@dataclass(frozen=True, slots=True)
class BatchMeasures:
    """What was measured of one file, or of several together."""

    rows: int
    wholes: tuple[tuple[int, int], ...]
    """Two hashes of whole rows, for each part of the columns."""
    columns: tuple[ColumnMeasures, ...]


class BatchReader:
    """Measures the columns `types` of data frames over staged scan tasks."""

    def __init__(self, spark: SparkSession, types: Mapping[str, str], leaves: Sequence[Leaf], columns_per_whole: int):
        self._spark = spark
        self._types = types
        self._leaves = {leaf.name: leaf for leaf in leaves}
        self._columns_per_whole = columns_per_whole

    def measure(self, frames: Sequence[DataFrame], metrics: Sequence[FileMetrics | None]) -> list[BatchMeasures] | None:
        """The measures of each frame; None where Spark reads one of them row by row."""
        scans = [frame.select(*map(identifier, self._types))._jdf.queryExecution().executedPlan() for frame in frames]
        leaves = [scan.collectLeaves().head() for scan in scans]
        if not all(leaf.supportsColumnar() for leaf in leaves):
            return None
        ship_class(self._spark, __package__, "BatchDigest")
        results = [
            leaf.executeColumnar().toJavaRDD().mapPartitions(self._function(number, leaf, claimed))
            for number, (leaf, claimed) in enumerate(zip(leaves, metrics, strict=True))
        ]
        together = results[0]
        for result in results[1:]:
            together = together.union(result)
        return self._parsed(together.collect(), len(frames))

    def _function(self, number: int, leaf: Any, metrics: FileMetrics | None) -> Any:
        output = leaf.output()
        places = {output.apply(at).name(): at for at in range(output.size())}
        gateway = self._spark.sparkContext._gateway
        jvm = self._spark.sparkContext._jvm
        size = len(self._types)
        columns = gateway.new_array(jvm.int, size)
        kinds = gateway.new_array(jvm.java.lang.String, size)
        lower = gateway.new_array(jvm.java.lang.Object, size)
        upper = gateway.new_array(jvm.java.lang.Object, size)
        for at, (name, kind) in enumerate(self._types.items()):
            columns[at] = places[name]
            kinds[at] = kind_of(kind)
            if metrics is not None and (leaf_column := self._leaves.get(name)) is not None:
                lower[at] = _bound(kind, metrics.lower_bounds.get(leaf_column.id))
                upper[at] = _bound(kind, metrics.upper_bounds.get(leaf_column.id))
        arguments = (number, columns, kinds, self._columns_per_whole, lower, upper)
        return new_instance(self._spark, __package__, "BatchDigest", *arguments)

    def _parsed(self, lines: Sequence[str], files: int) -> list[BatchMeasures]:
        parts = -(-len(self._types) // self._columns_per_whole)
        width = 1 + 2 * parts + MEASURES * len(self._types)
        sums = [[0] * width for _ in range(files)]
        for line in lines:
            number, *figures = map(int, line.split(" "))
            sums[number] = [one + other for one, other in zip(sums[number], figures, strict=True)]
        return [_measures(found, parts) for found in sums]


def _measures(sums: Sequence[int], parts: int) -> BatchMeasures:
    hashes = [value & _UNSIGNED for value in sums[1 : 1 + 2 * parts]]
    columns = sums[1 + 2 * parts :]
    return BatchMeasures(
        rows=sums[0],
        wholes=tuple(zip(hashes[::2], hashes[1::2], strict=True)),
        columns=tuple(_column(columns[at : at + MEASURES]) for at in range(0, len(columns), MEASURES)),
    )


def _column(sums: Sequence[int]) -> ColumnMeasures:
    nulls, hash_1, hash_2, nans, outside = sums
    return ColumnMeasures(nulls, hash_1 & _UNSIGNED, hash_2 & _UNSIGNED, nans, outside)


def kind_of(kind: str) -> str | None:
    """How BatchDigest.java reads a column of this Iceberg type; None where it cannot."""
    if kind.startswith("fixed["):
        return "binary"
    if decimal := _DECIMAL.fullmatch(kind):
        return f"{decimal[1]},{decimal[2]}"
    return KINDS.get(kind)


def can_measure(types: Mapping[str, Any]) -> bool:
    return all(isinstance(kind, str) and kind_of(kind) is not None for kind in types.values())


def _bound(kind: str, raw: bytes | None) -> Any:
    """A bound of a manifest entry as BatchDigest.java compares it."""
    if raw is None:
        return None
    match kind:
        case "boolean" | "int" | "long" | "date" | "timestamp" | "timestamptz":
            return int.from_bytes(raw, "little", signed=True)
        case "float" | "double":
            return struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
        case "uuid":
            return bytearray(str(UUID(bytes=raw)).encode())
        case _:
            return bytearray(raw)


def digest_of(measures: BatchMeasures, names: Sequence[str], wholes: Sequence[str], floating: Sequence[str]) -> Digest:
    """`wholes`: the label of each part of whole rows."""
    columns = {
        name: ColumnDigest(hash_1=found.hash_1, hash_2=found.hash_2, nulls=found.nulls)
        for name, found in zip(names, measures.columns, strict=True)
    }
    together = {
        label: ColumnDigest(hash_1=one, hash_2=two) for label, (one, two) in zip(wholes, measures.wholes, strict=True)
    }
    nans = {name: found.nans for name, found in zip(names, measures.columns, strict=True) if name in floating}
    return Digest(rows=measures.rows, columns={**columns, **together}, nans=nans)
