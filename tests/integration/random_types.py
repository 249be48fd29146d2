"""Random column types and values for tests."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

from .lake import Lake

EPOCH = datetime(1970, 1, 1)
WORDS = ("", "a", "ab", "b" * 20, "zürich", "😀" * 9, "\uffff" * 17, "naïve", "null", "\0", "z" * 40, "A")


@dataclass(frozen=True)
class ColumnType:
    """A type with its SQL and Arrow form; `fields` has the nested types of structs, lists and maps by name."""

    name: str
    fields: tuple[tuple[str, ColumnType], ...] = ()

    @property
    def sql(self) -> str:
        match self.name:
            case "struct":
                return f"STRUCT<{', '.join(f'{name}: {field.sql}' for name, field in self.fields)}>"
            case "list":
                return f"ARRAY<{self.fields[0][1].sql}>"
            case "map":
                return f"MAP<{self.fields[0][1].sql}, {self.fields[1][1].sql}>"
            case _:
                return SQL_TYPES.get(self.name, self.name.upper())

    @property
    def arrow(self) -> pa.DataType:
        match self.name:
            case "struct":
                return pa.struct([pa.field(name, field.arrow) for name, field in self.fields])
            case "list":
                return pa.list_(pa.field("element", self.fields[0][1].arrow))
            case "map":
                return pa.map_(self.fields[0][1].arrow, self.fields[1][1].arrow)
            case _:
                return ARROW_TYPES[self.name]

    def random_value(self, random: Random, *, nullable: bool = True) -> Any:
        if nullable and random.random() < 0.2:
            return None
        match self.name:
            case "struct":
                return {name: field.random_value(random) for name, field in self.fields}
            case "list":
                return [self.fields[0][1].random_value(random) for _ in range(random.choice((0, 0, 1, 2, 3)))]
            case "map":
                keys = {repr(key): key for key in (self._random_key(random) for _ in range(random.choice((0, 1, 3))))}
                return [(key, self.fields[1][1].random_value(random)) for key in keys.values()]
            case _:
                return RANDOM_VALUES[self.name](random)

    def _random_key(self, random: Random) -> Any:
        return self.fields[0][1].random_value(random, nullable=False)


# Arrow types as Spark accepts them: it has no uuids and no fixed-length binary type, and uses text and binary instead.
ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "decimal(7,2)": pa.decimal128(7, 2),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,4)": pa.decimal128(18, 4),
    "decimal(38,10)": pa.decimal128(38, 10),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(10,3)": pa.decimal128(10, 3),
    "decimal(20,5)": pa.decimal128(20, 5),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "time": pa.time64("us"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "uuid": pa.string(),
    "fixed": pa.binary(),
}
SQL_TYPES = {"long": "BIGINT", "int8": "INT", "int16": "INT", "uint8": "INT", "uint16": "INT", "uint32": "BIGINT"}
# Types that SQL does not have: such columns are added through Iceberg's Java API.
JAVA_ONLY = ("uuid", "fixed")
# Types that Spark cannot read: it can read no column of a table that has one.
UNREADABLE = ("time", "timestamp_ns", "timestamptz_ns")
# Types that a Parquet file can have and a table cannot.
FILE_ONLY = ("int8", "int16", "uint8", "uint16", "uint32")
FIXED_BYTES = 5
PROMOTIONS = {"int": "long", "float": "double", "decimal(7,2)": "decimal(9,2)"}


def _random_double(random: Random) -> float:
    special = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 5e-324)
    return random.choice(special) if random.random() < 0.5 else random.uniform(-1e9, 1e9)


def _random_float(random: Random) -> float:
    value = _random_double(random)
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _random_decimal(precision: int, scale: int) -> Any:
    return lambda random: Decimal(random.randint(-(10**precision) + 1, 10**precision - 1)).scaleb(-scale)


def _random_timestamp(random: Random) -> datetime:
    return EPOCH + timedelta(microseconds=random.randint(-(10**15), 4 * 10**15))


RANDOM_VALUES: dict[str, Any] = {
    "boolean": lambda random: random.random() < 0.5,
    "int": lambda random: random.choice((0, 1, -1, 2**31 - 1, -(2**31), random.randint(-100, 100))),
    "long": lambda random: random.choice((0, 2**63 - 1, -(2**63), random.randint(-(10**12), 10**12))),
    "float": _random_float,
    "double": _random_double,
    "date": lambda random: date(1970, 1, 1) + timedelta(days=random.randint(-20000, 40000)),
    "timestamp": lambda random: _random_timestamp(random).replace(tzinfo=UTC),
    "timestamp_ntz": _random_timestamp,
    "string": lambda random: random.choice(WORDS) + random.choice(("", random.choice(WORDS))),
    "binary": lambda random: (
        random.randbytes(random.choice((0, 1, 15, 16, 17, 40))) or random.choice((b"", b"\xff" * 20))
    ),
    "decimal(7,2)": _random_decimal(7, 2),
    "decimal(9,2)": _random_decimal(9, 2),
    "decimal(18,4)": _random_decimal(18, 4),
    "decimal(38,10)": _random_decimal(38, 10),
    "decimal(5,2)": _random_decimal(5, 2),
    "decimal(10,3)": _random_decimal(10, 3),
    "decimal(20,5)": _random_decimal(20, 5),
    "int8": lambda random: random.randint(-128, 127),
    "int16": lambda random: random.choice((-(2**15), 2**15 - 1, random.randint(-100, 100))),
    "uint8": lambda random: random.choice((0, 127, 128, 255)),
    "uint16": lambda random: random.choice((0, 2**15, 2**16 - 1, random.randint(0, 100))),
    "uint32": lambda random: random.choice((0, 2**31 - 1, 2**31, 2**32 - 1, random.randint(0, 100))),
    "time": lambda random: random.choice((0, 86_399_999_999, random.randrange(86_400_000_000))),
    "timestamp_ns": lambda random: random.randint(-(10**18), 4 * 10**18),
    "timestamptz_ns": lambda random: random.randint(-(10**18), 4 * 10**18),
    "uuid": lambda random: str(UUID(bytes=random.randbytes(16))),
    "fixed": lambda random: random.randbytes(FIXED_BYTES),
}

primitive_types = st.sampled_from(sorted(ARROW_TYPES.keys() - {*JAVA_ONLY, *UNREADABLE, *FILE_ONLY})).map(ColumnType)
key_types = st.sampled_from(["string", "int", "long", "date"]).map(ColumnType)


def _structs(nested: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[ColumnType]:
    def to_struct(types: list[ColumnType]) -> ColumnType:
        return ColumnType("struct", tuple((f"f{index}", column_type) for index, column_type in enumerate(types)))

    return st.lists(nested, min_size=1, max_size=3).map(to_struct)


def _containers(nested: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[ColumnType]:
    lists = nested.map(lambda element: ColumnType("list", (("element", element),)))
    maps = st.tuples(key_types, nested).map(lambda pair: ColumnType("map", (("key", pair[0]), ("value", pair[1]))))
    return st.one_of(_structs(nested), lists, maps)


column_types = st.recursive(primitive_types, _containers, max_leaves=4)


# Default values, as Iceberg's literals accept them.
DEFAULTS: dict[str, Any] = {
    "boolean": True,
    "int": 7,
    "long": 2**40,
    "float": 1.5,
    "double": -0.25,
    "date": "2024-02-29",
    "timestamp": "2024-02-29T12:34:56.789012+00:00",
    "timestamp_ntz": "2024-02-29T12:34:56.789012",
    "string": "as ever",
    "binary": bytearray(b"\x00\xff\x10"),
    "decimal(9,2)": "-1234.50",
    "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
    "fixed": bytearray(b"\x00\xff\x10\x00\x01"),
}
# Iceberg's names of types that SQL names differently.
ICEBERG_NAMES = {"timestamp": "timestamptz", "timestamp_ntz": "timestamp", "fixed": f"fixed[{FIXED_BYTES}]"}


def to_java_type(lake: Lake, column_type: ColumnType) -> Any:
    """Converts a primitive type for Iceberg's Java API."""
    name = ICEBERG_NAMES.get(column_type.name, column_type.name)
    return lake.iceberg.types.Types.fromPrimitiveString(name.replace(",", ", "))
