"""The schema of a Parquet file as its footer states it: physical types, annotations, repetition and field ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from icepack.kernel.parquet.thrift import Reader, Struct

REQUIRED, OPTIONAL, REPEATED = range(3)
_REPETITIONS = ("required", "optional", "repeated")
_PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")

# Numbers of fields in parquet.thrift.
_SCHEMA = 2
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _FIELD_ID, _LOGICAL = range(1, 11)

_LOGICAL_NAMES = {
    1: "STRING",
    2: "MAP",
    3: "LIST",
    4: "ENUM",
    5: "DECIMAL",
    6: "DATE",
    7: "TIME",
    8: "TIMESTAMP",
    10: "INT",
    11: "UNKNOWN",
    12: "JSON",
    13: "BSON",
    14: "UUID",
    15: "FLOAT16",
    16: "VARIANT",
    17: "GEOMETRY",
    18: "GEOGRAPHY",
}
_CONVERTED_NAMES = (
    "STRING",
    "MAP",
    "MAP_KEY_VALUE",
    "LIST",
    "ENUM",
    "DECIMAL",
    "DATE",
    "TIME(MILLIS,UTC)",
    "TIME(MICROS,UTC)",
    "TIMESTAMP(MILLIS,UTC)",
    "TIMESTAMP(MICROS,UTC)",
    *(f"INT({bits},unsigned)" for bits in (8, 16, 32, 64)),
    *(f"INT({bits},signed)" for bits in (8, 16, 32, 64)),
    "JSON",
    "BSON",
    "INTERVAL",
)
_UNITS = {1: "MILLIS", 2: "MICROS", 3: "NANOS"}


@dataclass(frozen=True, slots=True)
class Node:
    """A column, or a group of columns, of a Parquet schema."""

    name: str
    repetition: int
    physical: str
    """Empty for a group."""
    length: int
    """In bytes, of a fixed length; else 0."""
    annotation: str
    """The logical type in one spelling, whether the file states it the old way or the new; empty without one."""
    field_id: int | None
    children: tuple[Node, ...]
    precision: int = 0
    scale: int = 0

    @property
    def is_group(self) -> bool:
        return not self.physical

    @property
    def stored(self) -> str:
        """Physical type and annotation, for messages."""
        size = f"({self.length})" if self.length else ""
        return " ".join(filter(None, [f"{self.physical or 'a group'}{size}", self.annotation]))

    @property
    def leaves(self) -> int:
        return sum(child.leaves for child in self.children) if self.is_group else 1

    @property
    def has_ids(self) -> bool:
        return self.field_id is not None or any(child.has_ids for child in self.children)

    def leaf_paths(self, prefix: str = "") -> Iterator[str]:
        path = f"{prefix}{self.name}"
        if not self.is_group:
            yield path
        for child in self.children:
            yield from child.leaf_paths(f"{path}.")

    def text(self) -> str:
        """The same for two columns that are declared alike."""
        number = "" if self.field_id is None else f" id={self.field_id}"
        inside = f" {{{'; '.join(child.text() for child in self.children)}}}" if self.is_group else ""
        return f"{_REPETITIONS[self.repetition]} {self.stored} {self.name}{number}{inside}"


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The columns of a file, and the bytes of the footer that declare them."""

    columns: tuple[Node, ...]
    prefix: bytes
    """From the beginning of the footer to the end of the schema."""
    text: str
    paths: tuple[str, ...]
    """Of the leaves, by number."""
    has_ids: bool


def parse_schema(footer: bytes) -> FileSchema:
    reader = Reader(footer)
    for number, _, value in reader.fields():
        if number == _SCHEMA:
            columns = _tree(value[1])
            return FileSchema(
                columns=columns,
                prefix=footer[: reader.position],
                text="; ".join(column.text() for column in columns),
                paths=tuple(path for column in columns for path in column.leaf_paths()),
                has_ids=any(column.has_ids for column in columns),
            )
    raise ValueError("A Parquet footer without a schema.")


def _tree(elements: list[Struct]) -> tuple[Node, ...]:
    each = iter(elements)
    root = next(each)
    return tuple(_node(each) for _ in range(root.get(_CHILDREN, (0, 0))[1]))


def _node(each: Iterator[Struct]) -> Node:
    element = next(each)
    said = {number: value for number, (_, value) in element.items()}
    is_group = _TYPE not in said
    decimal = said.get(_LOGICAL, {}).get(5)
    scale, precision = (said.get(_SCALE, 0), said.get(_PRECISION, 0)) if decimal is None else _decimal(decimal[1])
    return Node(
        name=said[_NAME].decode("utf-8", "replace"),
        repetition=said.get(_REPETITION, REQUIRED),
        physical="" if is_group else _PHYSICAL[said[_TYPE]],
        length=0 if is_group else said.get(_LENGTH, 0),
        annotation=_annotation(said, precision, scale),
        field_id=said.get(_FIELD_ID),
        children=tuple(_node(each) for _ in range(said.get(_CHILDREN, 0))) if is_group else (),
        precision=precision,
        scale=scale,
    )


def _decimal(said: Struct) -> tuple[int, int]:
    return said.get(1, (0, 0))[1], said.get(2, (0, 0))[1]


def _annotation(said: dict[int, Any], precision: int, scale: int) -> str:
    name = _logical(said[_LOGICAL]) if said.get(_LOGICAL) else _converted(said.get(_CONVERTED))
    return f"DECIMAL({precision},{scale})" if name == "DECIMAL" else name


def _logical(union: Struct) -> str:
    ((number, (_, value)),) = union.items()
    name = _LOGICAL_NAMES.get(number, f"LOGICAL_{number}")
    if name in ("TIME", "TIMESTAMP"):
        (unit,) = value[2][1]
        return f"{name}({_UNITS.get(unit, unit)},{'UTC' if value[1][1] else 'local'})"
    if name == "INT":
        return f"INT({value[1][1]},{'signed' if value[2][1] else 'unsigned'})"
    return name


def _converted(number: int | None) -> str:
    if number is None:
        return ""
    return _CONVERTED_NAMES[number] if number < len(_CONVERTED_NAMES) else f"CONVERTED_{number}"
