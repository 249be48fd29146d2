"""Tables made up at random: types, values, how they came to be and what was deleted from them."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

from icepack.domain.actions import Layout

from .lakes import Lake

EPOCH = datetime(1970, 1, 1)
WORDS = ("", "a", "ab", "b" * 20, "zürich", "😀" * 9, "\uffff" * 17, "naïve", "null", "\0", "z" * 40, "A")


@dataclass(frozen=True)
class Kind:
    """A type: what SQL and Arrow call it, and for containers what is inside, by name."""

    name: str
    parts: tuple[tuple[str, Kind], ...] = ()

    @property
    def sql(self) -> str:
        match self.name:
            case "struct":
                return f"STRUCT<{', '.join(f'{name}: {part.sql}' for name, part in self.parts)}>"
            case "list":
                return f"ARRAY<{self.parts[0][1].sql}>"
            case "map":
                return f"MAP<{self.parts[0][1].sql}, {self.parts[1][1].sql}>"
            case _:
                return SQL.get(self.name, self.name.upper())

    @property
    def arrow(self) -> pa.DataType:
        match self.name:
            case "struct":
                return pa.struct([pa.field(name, part.arrow) for name, part in self.parts])
            case "list":
                return pa.list_(pa.field("element", self.parts[0][1].arrow))
            case "map":
                return pa.map_(self.parts[0][1].arrow, self.parts[1][1].arrow)
            case _:
                return ARROW[self.name]

    def value(self, random: Random, *, nullable: bool = True) -> Any:
        if nullable and random.random() < 0.2:
            return None
        match self.name:
            case "struct":
                return {name: part.value(random) for name, part in self.parts}
            case "list":
                return [self.parts[0][1].value(random) for _ in range(random.choice((0, 0, 1, 2, 3)))]
            case "map":
                keys = {repr(key): key for key in (self._key(random) for _ in range(random.choice((0, 1, 3))))}
                return [(key, self.parts[1][1].value(random)) for key in keys.values()]
            case _:
                return VALUES[self.name](random)

    def _key(self, random: Random) -> Any:
        return self.parts[0][1].value(random, nullable=False)


ARROW = {
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
"""As Spark takes them: it has no uuids and no bytes of a fixed length, and hands them on as text and bytes."""
SQL = {"long": "BIGINT", "int8": "INT", "int16": "INT", "uint8": "INT", "uint16": "INT", "uint32": "BIGINT"}
JAVA_ONLY = ("uuid", "fixed")
"""What SQL cannot say: such columns are added through Iceberg's Java API."""
UNREADABLE = ("time", "timestamp_ns", "timestamptz_ns")
"""What Spark cannot even read: not a column of a table that has one."""
STORED_ONLY = ("int8", "int16", "uint8", "uint16", "uint32")
"""What a Parquet file can have and a table cannot."""
FIXED_BYTES = 5
PROMOTIONS = {"int": "long", "float": "double", "decimal(7,2)": "decimal(9,2)"}


def _double(random: Random) -> float:
    special = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25, 5e-324)
    return random.choice(special) if random.random() < 0.5 else random.uniform(-1e9, 1e9)


def _float(random: Random) -> float:
    value = _double(random)
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _decimal(precision: int, scale: int) -> Any:
    return lambda random: Decimal(random.randint(-(10**precision) + 1, 10**precision - 1)).scaleb(-scale)


def _moment(random: Random) -> datetime:
    return EPOCH + timedelta(microseconds=random.randint(-(10**15), 4 * 10**15))


VALUES: dict[str, Any] = {
    "boolean": lambda random: random.random() < 0.5,
    "int": lambda random: random.choice((0, 1, -1, 2**31 - 1, -(2**31), random.randint(-100, 100))),
    "long": lambda random: random.choice((0, 2**63 - 1, -(2**63), random.randint(-(10**12), 10**12))),
    "float": _float,
    "double": _double,
    "date": lambda random: date(1970, 1, 1) + timedelta(days=random.randint(-20000, 40000)),
    "timestamp": lambda random: _moment(random).replace(tzinfo=UTC),
    "timestamp_ntz": _moment,
    "string": lambda random: random.choice(WORDS) + random.choice(("", random.choice(WORDS))),
    "binary": lambda random: (
        random.randbytes(random.choice((0, 1, 15, 16, 17, 40))) or random.choice((b"", b"\xff" * 20))
    ),
    "decimal(7,2)": _decimal(7, 2),
    "decimal(9,2)": _decimal(9, 2),
    "decimal(18,4)": _decimal(18, 4),
    "decimal(38,10)": _decimal(38, 10),
    "decimal(5,2)": _decimal(5, 2),
    "decimal(10,3)": _decimal(10, 3),
    "decimal(20,5)": _decimal(20, 5),
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

primitives = st.sampled_from(sorted(ARROW.keys() - {*JAVA_ONLY, *UNREADABLE, *STORED_ONLY})).map(Kind)
keys = st.sampled_from(["string", "int", "long", "date"]).map(Kind)


def _structs(inside: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    parts = st.lists(inside, min_size=1, max_size=3)
    return parts.map(lambda kinds: Kind("struct", tuple((f"f{at}", kind) for at, kind in enumerate(kinds))))


def _containers(inside: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    lists = inside.map(lambda kind: Kind("list", (("element", kind),)))
    maps = st.tuples(keys, inside).map(lambda pair: Kind("map", (("key", pair[0]), ("value", pair[1]))))
    return st.one_of(_structs(inside), lists, maps)


kinds = st.recursive(primitives, _containers, max_leaves=4)


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind


@dataclass(frozen=True)
class Step:
    """One change of a table: `do` says which, and the rest is its arguments."""

    do: str
    sql: str = ""
    columns: tuple[Column, ...] = ()
    """What the table has at that moment."""
    seed: int = 0
    rows: int = 0
    first: int = 0
    parent: str = ""
    """Of a column with a default: the struct that it is added to; none at the top."""
    stored: str | None = None
    """Of an import in Hive's layout: what the files themselves have in the partition column, if they have it."""


@dataclass(frozen=True)
class Story:
    """How a table comes to be."""

    version: int
    columns: tuple[Column, ...]
    partitioned_by: str
    properties: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    target_bytes: int = 128 * 2**20
    layout: Layout = Layout.BINPACK
    sort_by: tuple[str, ...] = ()
    ordered_by: str = ""
    """The table's own order, as SQL has it."""


def table_of(step: Step) -> pa.Table:
    """The rows of an append; `id` counts on, everything else is random, and some rows are alike."""
    random = Random(step.seed)
    body: dict[str, list[Any]] = {"id": [number if random.random() < 0.95 else None for number in _ids(step)]}
    body["p"] = [random.choice(("x", "y", None)) for _ in range(step.rows)]
    for column in step.columns:
        few = [column.kind.value(random) for _ in range(max(min(step.rows // 3, 10), 1))]
        alike = random.choice((0.3, 0.99))
        body[column.name] = [
            random.choice(few) if random.random() < alike else column.kind.value(random) for _ in range(step.rows)
        ]
    arrays = [pa.array(body["id"], pa.int64()), pa.array(body["p"], pa.string())]
    arrays += [pa.array(body[column.name], column.kind.arrow) for column in step.columns]
    return pa.table(arrays, names=["id", "p", *(column.name for column in step.columns)])


def _ids(step: Step) -> range:
    return range(step.first, step.first + step.rows)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    version = draw(st.sampled_from([2, 2, 3]))
    made = tuple(Column(f"c{at}", kind) for at, kind in enumerate(draw(st.lists(kinds, min_size=3, max_size=8))))
    partitioned_by = draw(st.sampled_from(["", "", "p", "p", "bucket(2, id)", "truncate(20, id)"]))
    teller = _Teller(draw, made, version, partitioned_by)
    properties = {
        "write.delete.granularity": draw(st.sampled_from(["file", "partition"])),
        "write.metadata.metrics.default": draw(
            st.sampled_from(["truncate(16)", "full", "counts", "none", "truncate(3)"])
        ),
    }
    if draw(st.booleans()):
        # A file is as large as that: its row groups are copied where they can be.
        properties["write.parquet.row-group-size-bytes"] = "4096"
    target = draw(st.sampled_from([128 * 2**20, 4000]))
    steps = teller.steps()
    layout, sort_by, ordered_by = draw(st.sampled_from(ORDERS))
    return Story(version, made, partitioned_by, properties, steps, target, layout, sort_by, ordered_by)


ORDERS = (
    (Layout.BINPACK, (), ""),
    (Layout.BINPACK, (), ""),
    (Layout.BINPACK, (), ""),
    (Layout.SORT, ("id",), ""),
    (Layout.SORT, ("p desc nulls first", "id asc nulls last"), ""),
    (Layout.SORT, (), "p ASC NULLS LAST, id DESC NULLS FIRST"),
    (Layout.SORT, (), "bucket(4, id) DESC, truncate(3, p), id"),
    (Layout.ZORDER, ("id", "p"), ""),
    (Layout.HILBERT, ("p", "id"), ""),
)
"""Layout, columns, and the table's own order."""


class _Teller:
    """Keeps the columns as they change from step to step."""

    def __init__(self, draw: st.DrawFn, columns: tuple[Column, ...], version: int, partitioned_by: str) -> None:
        self._draw = draw
        self._version = version
        self._columns = list(columns)
        self._number = 100
        self._rows = 0
        self._partitioned_by = partitioned_by

    def steps(self) -> tuple[Step, ...]:
        found = [self._append(), self._append()]
        others = [self._delete, self._delete, self._append, self._update]
        if self._draw(st.sampled_from([False, False, True])):
            # Nothing is lost of any file: what lies in it may be taken over as it is.
            others = [self._append]
        elif not self._partitioned_by:
            others += [self._equality, self._equality, self._foreign]
        elif self._partitioned_by == "p":
            others += [self._hive, self._hive, self._equality_in_partition]
        for _ in range(self._draw(st.integers(1, 3))):
            found += [self._evolve() for _ in range(self._draw(st.integers(0, 3)))]
            found.append(self._draw(st.sampled_from(others))())
        found += [self._evolve() for _ in range(self._draw(st.integers(0, 2)))]
        return tuple(found)

    def _append(self, do: str = "append") -> Step:
        rows = self._draw(st.sampled_from([1, 7, 30, 200]))
        step = Step(do, columns=tuple(self._columns), seed=self._seed(), rows=rows, first=self._rows)
        self._rows += rows
        return step

    def _foreign(self) -> Step:
        """A file without field ids, found by its names; it has no column that is other for Spark than it is stored."""
        step = self._append("foreign")
        return replace(step, columns=tuple(column for column in step.columns if column.kind.name not in JAVA_ONLY))

    def _hive(self) -> Step:
        """Partition folders without field ids, as `add_files` takes them; the files lack `p`, or have another."""
        return replace(self._foreign(), do="hive", stored=self._draw(st.sampled_from([None, None, "stored"])))

    def _equality_in_partition(self) -> Step:
        return Step("equality_in_partition", seed=self._seed(), first=self._rows)

    def _seed(self) -> int:
        return int(self._draw(st.integers(0, 2**20)))

    def _delete(self) -> Step:
        modulus = self._draw(st.sampled_from([2, 3, 7]))
        return Step("sql", sql=f"DELETE FROM {{}} WHERE id % {modulus} = {self._draw(st.integers(0, 1))}")

    def _update(self) -> Step:
        """Whole files anew: the rows in them state their ids, and those that were changed have no sequence number."""
        return Step("sql", sql=f"UPDATE {{}} SET id = id + 1000 WHERE id % 5 = {self._draw(st.integers(0, 1))}")

    def _equality(self) -> Step:
        return Step("equality", seed=self._seed(), first=self._rows)

    def _evolve(self) -> Step:
        ways = [self._add, self._rename, self._first]
        if len(self._columns) > 2:
            ways.append(self._drop)
        if any(column.kind.name in PROMOTIONS for column in self._columns):
            ways += [self._promote, self._promote]
        if self._inner(_is_struct):
            ways += [self._add_inside, self._rename_inside, self._drop_inside]
        if self._inner(_is_promotable):
            ways += [self._promote_inside]
        others = [self._add_by_java] + ([self._add_default] if self._version >= 3 else [])
        way = self._draw(st.sampled_from([*ways, *others]))
        return way() if way in others else Step("sql", sql=f"ALTER TABLE {{}} {way()}")

    def _inner(self, wanted: Any) -> list[Inner]:
        """What lies in columns, however deep, and is of a wanted kind; the columns themselves, too."""
        return [Inner(at, path) for at, column in enumerate(self._columns) for path in paths_to(column.kind, wanted)]

    def _name(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def _place(self, wanted: Any) -> int:
        return int(self._draw(st.sampled_from([at for at, column in enumerate(self._columns) if wanted(column.kind)])))

    def _add(self) -> str:
        column = Column(self._name(), self._draw(kinds))
        self._columns.append(column)
        return f"ADD COLUMN {column.name} {column.kind.sql}"

    def _add_by_java(self) -> Step:
        column = Column(self._name(), Kind(self._draw(st.sampled_from(JAVA_ONLY))))
        self._columns.append(column)
        return Step("add", columns=(column,))

    def _drop(self) -> str:
        return f"DROP COLUMN {self._columns.pop(self._place(lambda _: True)).name}"

    def _rename(self) -> str:
        """Sometimes to a name that a dropped column had."""
        at = self._place(lambda _: True)
        old = self._columns[at].name
        free = [f"c{number}" for number in range(8) if f"c{number}" not in {column.name for column in self._columns}]
        new = self._draw(st.sampled_from([self._name(), *free]))
        self._columns[at] = replace(self._columns[at], name=new)
        return f"RENAME COLUMN {old} TO {new}"

    def _first(self) -> str:
        """Behind `p`: the rows are made with `id` and `p` in front."""
        column = self._columns.pop(self._place(lambda _: True))
        self._columns.insert(0, column)
        return f"ALTER COLUMN {column.name} AFTER p"

    def _promote(self) -> str:
        at = self._place(lambda kind: kind.name in PROMOTIONS)
        kind = Kind(PROMOTIONS[self._columns[at].kind.name])
        self._columns[at] = replace(self._columns[at], kind=kind)
        return f"ALTER COLUMN {self._columns[at].name} TYPE {kind.sql}"

    def _take(self, wanted: Any) -> tuple[Inner, Kind, str]:
        """One of these: where it is, its kind, and how SQL calls it."""
        place = self._draw(st.sampled_from(self._inner(wanted)))
        column = self._columns[place.column]
        return place, inner_kind(column.kind, place.path), ".".join([column.name, *place.path])

    def _put(self, place: Inner, kind: Kind) -> None:
        column = self._columns[place.column]
        self._columns[place.column] = replace(column, kind=with_inner(column.kind, place.path, kind))

    def _add_inside(self) -> str:
        (place, inside, path), name, kind = self._take(_is_struct), self._name(), self._draw(primitives)
        self._put(place, Kind("struct", (*inside.parts, (name, kind))))
        return f"ADD COLUMN {path}.{name} {kind.sql}"

    def _rename_inside(self) -> str:
        (place, inside, path), new = self._take(_is_struct), self._name()
        (old, kind), *others = inside.parts
        self._put(place, Kind("struct", ((new, kind), *others)))
        return f"RENAME COLUMN {path}.{old} TO {new}"

    def _drop_inside(self) -> str:
        place, inside, path = self._take(_is_struct)
        (gone, _), *others = inside.parts
        if not others:
            return self._add_inside()
        self._put(place, Kind("struct", tuple(others)))
        return f"DROP COLUMN {path}.{gone}"

    def _promote_inside(self) -> str:
        place, inside, path = self._take(_is_promotable)
        kind = Kind(PROMOTIONS[inside.name])
        self._put(place, kind)
        return f"ALTER COLUMN {path} TYPE {kind.sql}"

    def _add_default(self) -> Step:
        """A column that the rows before it have a value of, at the top or inside."""
        column = Column(self._name(), Kind(self._draw(st.sampled_from(sorted(DEFAULTS)))))
        if not self._inner(_is_struct) or self._draw(st.booleans()):
            self._columns.append(column)
            return Step("default", columns=(column,))
        place, inside, path = self._take(_is_struct)
        self._put(place, Kind("struct", (*inside.parts, (column.name, column.kind))))
        return Step("default", columns=(column,), parent=path)


@dataclass(frozen=True)
class Inner:
    """A place in a column: its number, and the names that lead to it."""

    column: int
    path: tuple[str, ...]


def paths_to(kind: Kind, wanted: Any) -> list[tuple[str, ...]]:
    """Not in a map's keys: they cannot be changed."""
    found: list[tuple[str, ...]] = [()] if wanted(kind) else []
    parts = kind.parts[1:] if kind.name == "map" else kind.parts
    return found + [(name, *path) for name, part in parts for path in paths_to(part, wanted)]


def inner_kind(kind: Kind, path: tuple[str, ...]) -> Kind:
    return inner_kind(dict(kind.parts)[path[0]], path[1:]) if path else kind


def with_inner(kind: Kind, path: tuple[str, ...], new: Kind) -> Kind:
    if not path:
        return new
    parts = tuple((name, with_inner(part, path[1:], new) if name == path[0] else part) for name, part in kind.parts)
    return Kind(kind.name, parts)


def _is_struct(kind: Kind) -> bool:
    return kind.name == "struct"


def _is_promotable(kind: Kind) -> bool:
    return kind.name in PROMOTIONS


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
"""As Iceberg's literals take them."""
JAVA_NAMES = {"timestamp": "timestamptz", "timestamp_ntz": "timestamp", "fixed": f"fixed[{FIXED_BYTES}]"}
"""What Iceberg calls a kind that SQL calls otherwise."""


def java_type(lake: Lake, kind: Kind) -> Any:
    """A primitive type, for Iceberg's Java API."""
    name = JAVA_NAMES.get(kind.name, kind.name)
    return lake.iceberg.types.Types.fromPrimitiveString(name.replace(",", ", "))


def fixed_stories() -> dict[str, Story]:
    """What every run has to meet, whatever is drawn."""
    flat = tuple(Column(f"c{at}", Kind(name)) for at, name in enumerate(("long", "string", "binary", "decimal(38,10)")))
    pair = Kind("struct", (("f0", Kind("int")),))
    deep = (Column("c0", Kind("list", (("element", pair),))), Column("c1", Kind("long")))

    def append(columns: tuple[Column, ...], first: int, **more: Any) -> Step:
        return Step("append", columns=columns, seed=first, rows=200, first=first, **more)

    rows = {"write.parquet.row-group-size-bytes": "4096"}
    default = Step("default", columns=(Column("n1", Kind("string")),), parent="c0.element")
    hive = replace(append(flat, 200), do="hive")
    return {
        "copied": Story(2, flat, "", rows, (append(flat, 0), append(flat, 200))),
        "hive": Story(2, flat, "p", {}, (append(flat, 0), hive, Step("equality_in_partition", seed=1, first=400))),
        "hive, stored": Story(3, flat, "p", {}, (append(flat, 0), replace(hive, stored="stored"))),
        "default inside": Story(3, deep, "", {}, (append(deep, 0), append(deep, 200), default)),
    }
