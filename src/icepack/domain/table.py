"""What a table is called, and which tables a pattern means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from icepack.errors import AmbiguousTable, InvalidTableName, TableNotFound

_PLAIN_PART = re.compile(r"[^\s.\"*?\[\]]+")
_PART = re.compile(r'"((?:[^"]|"")*)"|([^."]+)')
_GLOB_CHARACTERS = frozenset("*?[")


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table's one name: catalog, namespace parts, table; odd parts are double-quoted in text."""

    catalog: str
    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return join_name((self.catalog, *self.namespace, self.name))

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.catalog, *self.namespace, self.name)

    @property
    def short(self) -> str:
        """The name without its catalog, for places where there is only one."""
        return join_name(self.parts[1:])

    @classmethod
    def parse(cls, text: str) -> TableId:
        parts = tuple(part for part, _ in split_name(text))
        if len(parts) < 3:
            raise InvalidTableName(f"'{text}' is not a full table name.", "Write it as catalog.namespace.table.")
        return cls(parts[0], parts[1:-1], parts[-1])


def join_name(parts: Iterable[str]) -> str:
    return ".".join(part if _PLAIN_PART.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in parts)


def split_name(text: str) -> list[tuple[str, bool]]:
    """The parts of a dotted name; the flag tells whether the part was quoted, so that it is no glob."""
    parts: list[tuple[str, bool]] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            raise InvalidTableName(
                f"'{text}' is not a table name.",
                'Write catalog.namespace.table; put odd parts in double quotes ("" for a quote).',
            )
        quoted = found[1] is not None
        parts.append((found[1].replace('""', '"') if quoted else found[2], quoted))
        position = found.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            raise InvalidTableName(f"'{text}' has a stray character at position {position + 1}.")
        position += 1


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A name or a glob; it may leave out the catalog, or the catalog and the namespace.

    In a glob `*` stays within one part, except as the last part, where it stands for all that follows.
    """

    text: str
    parts: tuple[tuple[str, bool], ...]

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        return cls(text, tuple(split_name(text)))

    @property
    def is_glob(self) -> bool:
        return any(not quoted and _GLOB_CHARACTERS & set(part) for part, quoted in self.parts)

    @property
    def plain_parts(self) -> tuple[str, ...]:
        return tuple(part for part, _ in self.parts)

    def matches(self, table: TableId) -> bool:
        return self.left_out(table) is not None

    def left_out(self, table: TableId) -> int | None:
        """How many leading parts of the table's name the pattern leaves out; None when it does not fit."""
        return next((skipped for skipped in self._levels(table) if self._fits(table.parts[skipped:])), None)

    def select(self, tables: Iterable[TableId]) -> list[TableId]:
        """The tables meant: the longest reading of the name that fits anything wins."""
        known = sorted(tables)
        for level in ("full", "namespace", "name"):
            found = [table for table in known if self._fits(_suffix(table, level))]
            if found:
                return found
        return []

    def _levels(self, table: TableId) -> tuple[int, ...]:
        return (0, 1, len(table.parts) - 1)

    def _fits(self, parts: tuple[str, ...]) -> bool:
        last, quoted = self.parts[-1]
        if last == "*" and not quoted and len(parts) > len(self.parts):
            parts = (*parts[: len(self.parts) - 1], "*")
        if len(parts) != len(self.parts):
            return False
        return all(
            part == pattern if is_literal else fnmatchcase(part, pattern)
            for part, (pattern, is_literal) in zip(parts, self.parts, strict=True)
        )


def _suffix(table: TableId, level: str) -> tuple[str, ...]:
    return {"full": table.parts, "namespace": table.parts[1:], "name": (table.name,)}[level]


def select_tables(patterns: Iterable[str], tables: Iterable[TableId]) -> list[TableId]:
    """Every table that the patterns mean, once each; a plain name must mean exactly one."""
    known = sorted(set(tables))
    chosen: dict[TableId, None] = {}
    for text in patterns:
        pattern = TablePattern.parse(text)
        found = pattern.select(known)
        if not found:
            raise TableNotFound(f"No table matches '{text}'.", "`icepack tables` lists what there is.")
        if len(found) > 1 and not pattern.is_glob:
            names = ", ".join(str(table) for table in found)
            raise AmbiguousTable(f"'{text}' could be any of {names}.", "Write the full name.")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def is_internal(table: TableId) -> bool:
    """Tables whose name starts with an underscore are left alone unless they are named."""
    return table.name.startswith("_")
