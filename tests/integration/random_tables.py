"""Random tables for tests: their columns, how they are written and evolved, and what is deleted from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from icepack.domain.actions import Layout

from .random_types import DEFAULTS, JAVA_ONLY, PROMOTIONS, ColumnType, column_types, primitive_types


@dataclass(frozen=True)
class Column:
    name: str
    type: ColumnType


@dataclass(frozen=True)
class Step:
    """One change of a table; the other fields are the arguments of the action."""

    action: str
    sql: str = ""
    # The columns of the table at that time.
    columns: tuple[Column, ...] = ()
    seed: int = 0
    rows: int = 0
    first: int = 0
    # For a column with a default: the struct that it is added to; empty for a top-level column.
    parent: str = ""
    # For an import of a Hive layout: the value of the partition column in the files, if they have that column.
    stored: str | None = None


@dataclass(frozen=True)
class TableScenario:
    """A table, and the steps that write and evolve it."""

    version: int
    columns: tuple[Column, ...]
    partitioned_by: str
    properties: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    target_bytes: int = 128 * 2**20
    layout: Layout = Layout.BINPACK
    sort_by: tuple[str, ...] = ()
    # The sort order of the table, in SQL.
    ordered_by: str = ""


def build_rows(step: Step) -> pa.Table:
    """Builds the rows of an append: `id` is consecutive, all other values are random, and some values are repeated."""
    random = Random(step.seed)
    body: dict[str, list[Any]] = {"id": [number if random.random() < 0.95 else None for number in _ids(step)]}
    body["p"] = [random.choice(("x", "y", None)) for _ in range(step.rows)]
    for column in step.columns:
        repeated = [column.type.random_value(random) for _ in range(max(min(step.rows // 3, 10), 1))]
        share = random.choice((0.3, 0.99))
        body[column.name] = [
            random.choice(repeated) if random.random() < share else column.type.random_value(random)
            for _ in range(step.rows)
        ]
    arrays = [pa.array(body["id"], pa.int64()), pa.array(body["p"], pa.string())]
    arrays += [pa.array(body[column.name], column.type.arrow) for column in step.columns]
    return pa.table(arrays, names=["id", "p", *(column.name for column in step.columns)])


def _ids(step: Step) -> range:
    return range(step.first, step.first + step.rows)


@st.composite
def table_scenarios(draw: st.DrawFn) -> TableScenario:
    version = draw(st.sampled_from([2, 2, 3]))
    drawn = draw(st.lists(column_types, min_size=3, max_size=8))
    columns = tuple(Column(f"c{index}", column_type) for index, column_type in enumerate(drawn))
    partitioned_by = draw(st.sampled_from(["", "", "p", "p", "bucket(2, id)", "truncate(20, id)"]))
    builder = _StepBuilder(draw, columns, version, partitioned_by)
    properties = {
        "write.delete.granularity": draw(st.sampled_from(["file", "partition"])),
        "write.metadata.metrics.default": draw(
            st.sampled_from(["truncate(16)", "full", "counts", "none", "truncate(3)"])
        ),
    }
    if draw(st.booleans()):
        # About the size of a file, so that whole row groups can be copied.
        properties["write.parquet.row-group-size-bytes"] = "4096"
    target = draw(st.sampled_from([128 * 2**20, 4000]))
    steps = builder.steps()
    layout, sort_by, ordered_by = draw(st.sampled_from(ORDERS))
    return TableScenario(version, columns, partitioned_by, properties, steps, target, layout, sort_by, ordered_by)


# Layout, sort columns, and the sort order of the table.
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


class _StepBuilder:
    """Draws the steps of a scenario, and tracks the columns as they change."""

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
            # Without deletes, whole column chunks can be copied.
            others = [self._append]
        elif not self._partitioned_by:
            others += [self._equality_delete, self._equality_delete, self._import_file]
        elif self._partitioned_by == "p":
            others += [self._import_hive, self._import_hive, self._equality_delete_in_partition]
        for _ in range(self._draw(st.integers(1, 3))):
            found += [self._evolve() for _ in range(self._draw(st.integers(0, 3)))]
            found.append(self._draw(st.sampled_from(others))())
        found += [self._evolve() for _ in range(self._draw(st.integers(0, 2)))]
        return tuple(found)

    def _append(self, action: str = "append") -> Step:
        rows = self._draw(st.sampled_from([1, 7, 30, 200]))
        step = Step(action, columns=tuple(self._columns), seed=self._seed(), rows=rows, first=self._rows)
        self._rows += rows
        return step

    def _import_file(self) -> Step:
        """Imports a file without field ids; it has no column that Spark represents as another type."""
        step = self._append("import_file")
        return replace(step, columns=tuple(column for column in step.columns if column.type.name not in JAVA_ONLY))

    def _import_hive(self) -> Step:
        """Imports Hive partition folders with `add_files`; the files have no column `p`, or one with other values."""
        return replace(
            self._import_file(), action="import_hive", stored=self._draw(st.sampled_from([None, None, "stored"]))
        )

    def _equality_delete_in_partition(self) -> Step:
        return Step("equality_delete_in_partition", seed=self._seed(), first=self._rows)

    def _seed(self) -> int:
        return int(self._draw(st.integers(0, 2**20)))

    def _delete(self) -> Step:
        modulus = self._draw(st.sampled_from([2, 3, 7]))
        return Step("sql", sql=f"DELETE FROM {{}} WHERE id % {modulus} = {self._draw(st.integers(0, 1))}")

    def _update(self) -> Step:
        """Rewrites whole files: their rows store row ids, and changed rows have no sequence number."""
        return Step("sql", sql=f"UPDATE {{}} SET id = id + 1000 WHERE id % 5 = {self._draw(st.integers(0, 1))}")

    def _equality_delete(self) -> Step:
        return Step("equality_delete", seed=self._seed(), first=self._rows)

    def _evolve(self) -> Step:
        changes = [self._add, self._rename, self._move_first]
        if len(self._columns) > 2:
            changes.append(self._drop)
        if any(column.type.name in PROMOTIONS for column in self._columns):
            changes += [self._promote, self._promote]
        if self._nested_fields(_is_struct):
            changes += [self._add_nested, self._rename_nested, self._drop_nested]
        if self._nested_fields(_is_promotable):
            changes += [self._promote_nested]
        java_changes = [self._add_by_java] + ([self._add_default] if self._version >= 3 else [])
        change = self._draw(st.sampled_from([*changes, *java_changes]))
        return change() if change in java_changes else Step("sql", sql=f"ALTER TABLE {{}} {change()}")

    def _nested_fields(self, condition: Callable[[ColumnType], bool]) -> list[NestedField]:
        """The columns and fields at any depth whose type meets the condition."""
        return [
            NestedField(index, path)
            for index, column in enumerate(self._columns)
            for path in find_paths(column.type, condition)
        ]

    def _new_name(self) -> str:
        self._number += 1
        return f"n{self._number}"

    def _draw_column(self, condition: Callable[[ColumnType], bool]) -> int:
        matching = [index for index, column in enumerate(self._columns) if condition(column.type)]
        return int(self._draw(st.sampled_from(matching)))

    def _add(self) -> str:
        column = Column(self._new_name(), self._draw(column_types))
        self._columns.append(column)
        return f"ADD COLUMN {column.name} {column.type.sql}"

    def _add_by_java(self) -> Step:
        column = Column(self._new_name(), ColumnType(self._draw(st.sampled_from(JAVA_ONLY))))
        self._columns.append(column)
        return Step("add", columns=(column,))

    def _drop(self) -> str:
        return f"DROP COLUMN {self._columns.pop(self._draw_column(lambda _: True)).name}"

    def _rename(self) -> str:
        """Renames a column, sometimes to the name of a dropped column."""
        index = self._draw_column(lambda _: True)
        old = self._columns[index].name
        free = [f"c{number}" for number in range(8) if f"c{number}" not in {column.name for column in self._columns}]
        new = self._draw(st.sampled_from([self._new_name(), *free]))
        self._columns[index] = replace(self._columns[index], name=new)
        return f"RENAME COLUMN {old} TO {new}"

    def _move_first(self) -> str:
        """Moves a column right after `p`, because the rows are built with `id` and `p` first."""
        column = self._columns.pop(self._draw_column(lambda _: True))
        self._columns.insert(0, column)
        return f"ALTER COLUMN {column.name} AFTER p"

    def _promote(self) -> str:
        index = self._draw_column(_is_promotable)
        promoted = ColumnType(PROMOTIONS[self._columns[index].type.name])
        self._columns[index] = replace(self._columns[index], type=promoted)
        return f"ALTER COLUMN {self._columns[index].name} TYPE {promoted.sql}"

    def _draw_nested(self, condition: Callable[[ColumnType], bool]) -> tuple[NestedField, ColumnType, str]:
        """Draws a field; returns its position, its type and its name in SQL."""
        nested = self._draw(st.sampled_from(self._nested_fields(condition)))
        column = self._columns[nested.column]
        return nested, get_nested(column.type, nested.path), ".".join([column.name, *nested.path])

    def _set_type(self, nested: NestedField, new: ColumnType) -> None:
        column = self._columns[nested.column]
        self._columns[nested.column] = replace(column, type=replace_nested(column.type, nested.path, new))

    def _add_nested(self) -> str:
        (nested, struct, path), name, kind = (
            self._draw_nested(_is_struct),
            self._new_name(),
            self._draw(primitive_types),
        )
        self._set_type(nested, ColumnType("struct", (*struct.fields, (name, kind))))
        return f"ADD COLUMN {path}.{name} {kind.sql}"

    def _rename_nested(self) -> str:
        (nested, struct, path), new = self._draw_nested(_is_struct), self._new_name()
        (old, kind), *others = struct.fields
        self._set_type(nested, ColumnType("struct", ((new, kind), *others)))
        return f"RENAME COLUMN {path}.{old} TO {new}"

    def _drop_nested(self) -> str:
        nested, struct, path = self._draw_nested(_is_struct)
        (dropped, _), *others = struct.fields
        if not others:
            return self._add_nested()
        self._set_type(nested, ColumnType("struct", tuple(others)))
        return f"DROP COLUMN {path}.{dropped}"

    def _promote_nested(self) -> str:
        nested, old, path = self._draw_nested(_is_promotable)
        promoted = ColumnType(PROMOTIONS[old.name])
        self._set_type(nested, promoted)
        return f"ALTER COLUMN {path} TYPE {promoted.sql}"

    def _add_default(self) -> Step:
        """Adds a top-level or nested column with a default, which existing rows then have."""
        column = Column(self._new_name(), ColumnType(self._draw(st.sampled_from(sorted(DEFAULTS)))))
        if not self._nested_fields(_is_struct) or self._draw(st.booleans()):
            self._columns.append(column)
            return Step("default", columns=(column,))
        nested, struct, path = self._draw_nested(_is_struct)
        self._set_type(nested, ColumnType("struct", (*struct.fields, (column.name, column.type))))
        return Step("default", columns=(column,), parent=path)


@dataclass(frozen=True)
class NestedField:
    """A column or one of its nested fields: the column's index, and the path inside it."""

    column: int
    path: tuple[str, ...]


def find_paths(kind: ColumnType, condition: Callable[[ColumnType], bool]) -> list[tuple[str, ...]]:
    """Finds nested fields, but not in the keys of maps, which cannot be changed."""
    found: list[tuple[str, ...]] = [()] if condition(kind) else []
    fields = kind.fields[1:] if kind.name == "map" else kind.fields
    return found + [(name, *path) for name, field in fields for path in find_paths(field, condition)]


def get_nested(kind: ColumnType, path: tuple[str, ...]) -> ColumnType:
    return get_nested(dict(kind.fields)[path[0]], path[1:]) if path else kind


def replace_nested(kind: ColumnType, path: tuple[str, ...], new: ColumnType) -> ColumnType:
    if not path:
        return new
    fields = ((name, replace_nested(old, path[1:], new) if name == path[0] else old) for name, old in kind.fields)
    return ColumnType(kind.name, tuple(fields))


def _is_struct(kind: ColumnType) -> bool:
    return kind.name == "struct"


def _is_promotable(kind: ColumnType) -> bool:
    return kind.name in PROMOTIONS


def fixed_scenarios() -> dict[str, TableScenario]:
    """The scenarios that every test run covers."""
    names = ("long", "string", "binary", "decimal(38,10)")
    flat = tuple(Column(f"c{index}", ColumnType(name)) for index, name in enumerate(names))
    pair = ColumnType("struct", (("f0", ColumnType("int")),))
    deep = (Column("c0", ColumnType("list", (("element", pair),))), Column("c1", ColumnType("long")))

    def append(columns: tuple[Column, ...], first: int, **more: Any) -> Step:
        return Step("append", columns=columns, seed=first, rows=200, first=first, **more)

    small_row_groups = {"write.parquet.row-group-size-bytes": "4096"}
    default = Step("default", columns=(Column("n1", ColumnType("string")),), parent="c0.element")
    hive = replace(append(flat, 200), action="import_hive")
    equality_delete = Step("equality_delete_in_partition", seed=1, first=400)
    return {
        "copied": TableScenario(2, flat, "", small_row_groups, (append(flat, 0), append(flat, 200))),
        "merged": TableScenario(2, flat, "", {}, (append(flat, 0), append(flat, 200))),
        "hive": TableScenario(2, flat, "p", {}, (append(flat, 0), hive, equality_delete)),
        "hive, stored": TableScenario(3, flat, "p", {}, (append(flat, 0), replace(hive, stored="stored"))),
        "nested default": TableScenario(3, deep, "", {}, (append(deep, 0), append(deep, 200), default)),
    }
