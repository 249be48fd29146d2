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
    "uuid": pa.string(),
    "fixed": pa.binary(),
}
"""As Spark takes them: it has no uuids and no bytes of a fixed length, and hands them on as text and bytes."""
SQL = {"long": "BIGINT"}
JAVA_ONLY = ("uuid", "fixed")
"""What SQL cannot say: such columns are added through Iceberg's Java API."""
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
    "uuid": lambda random: str(UUID(bytes=random.randbytes(16))),
    "fixed": lambda random: random.randbytes(FIXED_BYTES),
}

primitives = st.sampled_from(sorted(ARROW.keys() - {*JAVA_ONLY})).map(Kind)
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


@dataclass(frozen=True)
class Story:
    """How a table comes to be."""

    version: int
    columns: tuple[Column, ...]
    partitioned_by: str
    properties: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    target_bytes: int = 128 * 2**20
    sort_by: tuple[str, ...] = ()


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
    partitioned_by = draw(st.sampled_from(["", "", "p", "bucket(2, id)", "truncate(20, id)"]))
    teller = _Teller(draw, made, version, is_partitioned=bool(partitioned_by))
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
    sort_by = draw(st.sampled_from([(), (), ("id",), ("p", "id")]))
    return Story(version, made, partitioned_by, properties, steps, target, sort_by)


class _Teller:
    """Keeps the columns as they change from step to step."""

    def __init__(self, draw: st.DrawFn, columns: tuple[Column, ...], version: int, *, is_partitioned: bool) -> None:
        self._draw = draw
        self._columns = list(columns)
        self._number = 100
        self._rows = 0
        self._is_partitioned = is_partitioned

    def steps(self) -> tuple[Step, ...]:
        found = [self._append(), self._append()]
        others = [self._delete, self._delete, self._append, self._update]
        if self._draw(st.sampled_from([False, False, True])):
            # Nothing is lost of any file: what lies in it may be taken over as it is.
            others = [self._append]
        elif not self._is_partitioned:
            others += [self._equality, self._equality, self._foreign]
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
        if any(column.kind.name == "struct" for column in self._columns):
            ways += [self._add_inside, self._rename_inside, self._drop_inside]
        if any(_is_list_of_structs(column.kind) for column in self._columns):
            ways += [self._add_in_list]
        way = self._draw(st.sampled_from([*ways, self._add_by_java]))
        return way() if way == self._add_by_java else Step("sql", sql=f"ALTER TABLE {{}} {way()}")

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

    def _struct(self) -> int:
        return self._place(lambda kind: kind.name == "struct")

    def _inside(self, at: int, parts: list[tuple[str, Kind]]) -> None:
        self._columns[at] = replace(self._columns[at], kind=Kind("struct", tuple(parts)))

    def _add_inside(self) -> str:
        at, name, kind = self._struct(), self._name(), self._draw(primitives)
        self._inside(at, [*self._columns[at].kind.parts, (name, kind)])
        return f"ADD COLUMN {self._columns[at].name}.{name} {kind.sql}"

    def _rename_inside(self) -> str:
        at, new = self._struct(), self._name()
        parts = list(self._columns[at].kind.parts)
        old = parts[0][0]
        parts[0] = (new, parts[0][1])
        self._inside(at, parts)
        return f"RENAME COLUMN {self._columns[at].name}.{old} TO {new}"

    def _drop_inside(self) -> str:
        at = self._struct()
        parts = list(self._columns[at].kind.parts)
        if len(parts) == 1:
            return self._add_inside()
        (gone, _) = parts.pop(0)
        self._inside(at, parts)
        return f"DROP COLUMN {self._columns[at].name}.{gone}"

    def _add_in_list(self) -> str:
        at, name, kind = self._place(_is_list_of_structs), self._name(), self._draw(primitives)
        inside = self._columns[at].kind.parts[0][1]
        grown = Kind("struct", (*inside.parts, (name, kind)))
        self._columns[at] = replace(self._columns[at], kind=Kind("list", (("element", grown),)))
        return f"ADD COLUMN {self._columns[at].name}.element.{name} {kind.sql}"


def _is_list_of_structs(kind: Kind) -> bool:
    return kind.name == "list" and kind.parts[0][1].name == "struct"
