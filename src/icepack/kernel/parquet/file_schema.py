"""Parses the schema of a Parquet file from its footer: physical types, annotations, repetition and field ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from icepack.kernel.parquet.metadata import FILE_SCHEMA
from icepack.kernel.parquet.thrift import CompactReader, ThriftStruct

REQUIRED, OPTIONAL, REPEATED = range(3)
_REPETITIONS = ("required", "optional", "repeated")
_PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")

# Field ids of SchemaElement in parquet.thrift.
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _FIELD_ID, _LOGICAL = range(1, 11)

# Field ids of the LogicalType union and of its members.
_DECIMAL = 5
_DECIMAL_SCALE, _DECIMAL_PRECISION = 1, 2
_TIME_IS_UTC, _TIME_UNIT = 1, 2
_INT_BITS, _INT_IS_SIGNED = 1, 2
_LOGICAL_NAMES = {
    1: "STRING",
    2: "MAP",
    3: "LIST",
    4: "ENUM",
    _DECIMAL: "DECIMAL",
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
class SchemaNode:
    """A column, or a group of columns, of a Parquet schema."""

    name: str
    repetition: int
    # Empty for a group.
    physical_type: str
    # Length of a fixed-length type in bytes, else 0.
    length: int
    # The logical type in one spelling, whether the file states it as a converted or a logical type; empty without one.
    annotation: str
    field_id: int | None
    children: tuple[SchemaNode, ...]
    precision: int = 0
    scale: int = 0

    @property
    def is_group(self) -> bool:
        return not self.physical_type

    @property
    def type_text(self) -> str:
        """Physical type and annotation, for messages."""
        size = f"({self.length})" if self.length else ""
        return " ".join(filter(None, [f"{self.physical_type or 'a group'}{size}", self.annotation]))

    @property
    def leaf_count(self) -> int:
        return sum(child.leaf_count for child in self.children) if self.is_group else 1

    @property
    def has_field_ids(self) -> bool:
        return self.field_id is not None or any(child.has_field_ids for child in self.children)

    def iter_leaf_paths(self, prefix: str = "") -> Iterator[str]:
        path = f"{prefix}{self.name}"
        if not self.is_group:
            yield path
        for child in self.children:
            yield from child.iter_leaf_paths(f"{path}.")

    def format(self) -> str:
        """Returns a text that is the same for two columns that are declared alike."""
        number = "" if self.field_id is None else f" id={self.field_id}"
        members = f" {{{'; '.join(child.format() for child in self.children)}}}" if self.is_group else ""
        return f"{_REPETITIONS[self.repetition]} {self.type_text} {self.name}{number}{members}"


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The columns of a file, and the bytes of the footer that declare them."""

    columns: tuple[SchemaNode, ...]
    # The footer from its start to the end of the schema.
    prefix: bytes
    text: str
    # Paths of the leaf columns, by index.
    paths: tuple[str, ...]
    has_field_ids: bool


def parse_schema(footer: bytes) -> FileSchema:
    reader = CompactReader(footer)
    for field_id, _, value in reader.read_fields():
        if field_id == FILE_SCHEMA:
            columns = _parse_columns(value[1])
            return FileSchema(
                columns=columns,
                prefix=footer[: reader.position],
                text="; ".join(column.format() for column in columns),
                paths=tuple(path for column in columns for path in column.iter_leaf_paths()),
                has_field_ids=any(column.has_field_ids for column in columns),
            )
    raise ValueError("The Parquet footer has no schema.")


def _parse_columns(elements: list[ThriftStruct]) -> tuple[SchemaNode, ...]:
    remaining = iter(elements)
    root = next(remaining)
    return tuple(_parse_node(remaining) for _ in range(root.get(_CHILDREN, (0, 0))[1]))


def _parse_node(remaining: Iterator[ThriftStruct]) -> SchemaNode:
    """Parses the next element and, if it is a group, the elements of its children that follow it."""
    element = {field_id: value for field_id, (_, value) in next(remaining).items()}
    is_group = _TYPE not in element
    scale, precision = _parse_decimal(element)
    return SchemaNode(
        name=element[_NAME].decode("utf-8", "replace"),
        repetition=element.get(_REPETITION, REQUIRED),
        physical_type="" if is_group else _PHYSICAL_TYPES[element[_TYPE]],
        length=0 if is_group else element.get(_LENGTH, 0),
        annotation=_parse_annotation(element, precision, scale),
        field_id=element.get(_FIELD_ID),
        children=tuple(_parse_node(remaining) for _ in range(element.get(_CHILDREN, 0))) if is_group else (),
        precision=precision,
        scale=scale,
    )


def _parse_decimal(element: dict[int, Any]) -> tuple[int, int]:
    """Returns scale and precision, both 0 for other types."""
    decimal = element.get(_LOGICAL, {}).get(_DECIMAL)
    if decimal is None:
        return element.get(_SCALE, 0), element.get(_PRECISION, 0)
    return decimal[1].get(_DECIMAL_SCALE, (0, 0))[1], decimal[1].get(_DECIMAL_PRECISION, (0, 0))[1]


def _parse_annotation(element: dict[int, Any], precision: int, scale: int) -> str:
    is_logical = bool(element.get(_LOGICAL))
    name = _format_logical(element[_LOGICAL]) if is_logical else _format_converted(element.get(_CONVERTED))
    return f"DECIMAL({precision},{scale})" if name == "DECIMAL" else name


def _format_logical(union: ThriftStruct) -> str:
    ((number, (_, value)),) = union.items()
    name = _LOGICAL_NAMES.get(number, f"LOGICAL_{number}")
    if name in ("TIME", "TIMESTAMP"):
        (unit,) = value[_TIME_UNIT][1]
        return f"{name}({_UNITS.get(unit, unit)},{'UTC' if value[_TIME_IS_UTC][1] else 'local'})"
    if name == "INT":
        return f"INT({value[_INT_BITS][1]},{'signed' if value[_INT_IS_SIGNED][1] else 'unsigned'})"
    return name


def _format_converted(number: int | None) -> str:
    if number is None:
        return ""
    return _CONVERTED_NAMES[number] if number < len(_CONVERTED_NAMES) else f"CONVERTED_{number}"
