"""TableId: a table's name and its text form. TablePattern: names and globs that select tables."""

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
    """A table's full name: catalog, namespace parts and table name.

    In the text form, parts with special characters are double-quoted.
    """

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
        """The name without its catalog, for output where there is only one catalog."""
        return join_name(self.parts[1:])

    @classmethod
    def parse(cls, text: str) -> TableId:
        parts = tuple(part for part, _ in split_name(text))
        if len(parts) < 3:
            raise InvalidTableName(f"'{text}' is not a full table name.", "Use the form catalog.namespace.table.")
        return cls(parts[0], parts[1:-1], parts[-1])


def join_name(parts: Iterable[str]) -> str:
    return ".".join(part if _PLAIN_PART.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in parts)


def split_name(text: str) -> list[tuple[str, bool]]:
    """Splits a dotted name into parts; the flag says whether the part was quoted, because a quoted part is no glob."""
    parts: list[tuple[str, bool]] = []
    position = 0
    while True:
        found = _PART.match(text, position)
        if found is None:
            raise InvalidTableName(
                f"'{text}' is not a table name.",
                'Use catalog.namespace.table, and put parts with special characters in double quotes ("" for a quote).',
            )
        quoted = found[1] is not None
        parts.append((found[1].replace('""', '"') if quoted else found[2], quoted))
        position = found.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            raise InvalidTableName(f"'{text}' has an unexpected character at position {position + 1}.")
        position += 1


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A table name or a glob; it may omit the catalog, or the catalog and the namespace.

    In a glob, `*` matches within one part; as the last part, it matches everything that follows.
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
        return self.omitted_parts(table) is not None

    def omitted_parts(self, table: TableId) -> int | None:
        """How many leading parts of the table's name the pattern omits; None if it does not match."""
        return next((omitted for omitted in _omittable(table) if self._matches_parts(table.parts[omitted:])), None)

    def select(self, tables: Iterable[TableId]) -> list[TableId]:
        """Returns the tables that match.

        The pattern is read as a full name first, then as a name without catalog, then as a bare table name; the first
        reading that matches any table is used.
        """
        known = sorted(tables)
        for level in ("full", "namespace", "name"):
            found = [table for table in known if self._matches_parts(_suffix(table, level))]
            if found:
                return found
        return []

    def _matches_parts(self, parts: tuple[str, ...]) -> bool:
        last, quoted = self.parts[-1]
        if last == "*" and not quoted and len(parts) > len(self.parts):
            parts = (*parts[: len(self.parts) - 1], "*")
        if len(parts) != len(self.parts):
            return False
        return all(
            part == pattern if is_literal else fnmatchcase(part, pattern)
            for part, (pattern, is_literal) in zip(parts, self.parts, strict=True)
        )


def _omittable(table: TableId) -> tuple[int, ...]:
    """How many leading parts a pattern may omit: none, the catalog, or everything but the table name."""
    return (0, 1, len(table.parts) - 1)


def _suffix(table: TableId, level: str) -> tuple[str, ...]:
    return {"full": table.parts, "namespace": table.parts[1:], "name": (table.name,)}[level]


def select_tables(patterns: Iterable[str], tables: Iterable[TableId]) -> list[TableId]:
    """Returns every table that the patterns match, once each; a plain name must match exactly one."""
    known = sorted(set(tables))
    chosen: dict[TableId, None] = {}
    for text in patterns:
        pattern = TablePattern.parse(text)
        found = pattern.select(known)
        if not found:
            raise TableNotFound(f"No table matches '{text}'.", "Run `icepack tables` to list all tables.")
        if len(found) > 1 and not pattern.is_glob:
            names = ", ".join(str(table) for table in found)
            raise AmbiguousTable(f"'{text}' matches several tables: {names}.", "Use the full name.")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def is_internal(table: TableId) -> bool:
    """Tables whose name starts with an underscore are excluded from maintenance unless they are named explicitly."""
    return table.name.startswith("_")
