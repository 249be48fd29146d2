"""How the column chunks of a file are encoded and compressed, by the bytes of its footer.

A footer states type, encodings, path and codec of a chunk one after another, so chunks that are declared alike have
these bytes in common. They are looked for in the next footers, which takes a tenth of the time of asking PyArrow for
each chunk. A footer in which they are not found is parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.file_coverage import CODECS, DICTIONARY_ENCODINGS, ENCODINGS
from icepack.kernel.parquet.file_schema import FileSchema
from icepack.kernel.parquet.thrift import Reader, Struct, write_struct

ENCODING_NAMES = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}
CODEC_NAMES = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 3: "LZO", 4: "BROTLI", 5: "LZ4", 6: "ZSTD", 7: "LZ4_RAW"}

# Numbers of fields in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _META = 4, 1, 3
_TYPE, _ENCODINGS, _PATH, _CODEC = 1, 2, 3, 4
_DECLARING = (_TYPE, _ENCODINGS, _PATH, _CODEC)
_FILE_PATH, _CRYPTO, _ENCRYPTED = 1, 8, 9


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """Of one file."""

    encodings: frozenset[str]
    codecs: frozenset[str]
    no_dictionary: frozenset[int]
    """Numbers of the columns that PyArrow cannot read as dictionaries."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One way in which chunks of one column are declared."""

    column: int
    pattern: bytes
    encodings: tuple[str, ...]
    codec: str


class KnownChunks:
    """The ways in which chunks of files with one schema were declared so far."""

    def __init__(self, schema: FileSchema) -> None:
        self._start = len(schema.prefix)
        self._known: list[list[Declared]] = [[] for _ in schema.paths]
        self._facts: dict[frozenset[Declared], ChunkFacts] = {}

    def facts(self, footer: bytes, row_groups: int) -> ChunkFacts:
        """Refuses encodings and codecs that are not on the list."""
        found = self._recognized(footer, row_groups)
        declared = frozenset(self._parsed(footer) if found is None else found)
        if declared not in self._facts:
            self._facts[declared] = _facts(declared)
        return self._facts[declared]

    def _recognized(self, footer: bytes, row_groups: int) -> set[Declared] | None:
        """None unless every chunk of every row group is declared in a known way, in their order."""
        seen: set[Declared] = set()
        at = self._start
        for _ in range(row_groups):
            for known in self._known:
                places = [(place, item) for item in known if (place := footer.find(item.pattern, at)) >= 0]
                if not places:
                    return None
                place, item = places[0] if len(places) == 1 else min(places, key=lambda pair: pair[0])
                seen.add(item)
                at = place + len(item.pattern)
        return seen

    def _parsed(self, footer: bytes) -> Iterator[Declared]:
        said = Reader(footer).struct()
        for group in said[_ROW_GROUPS][1][1] if _ROW_GROUPS in said else ():
            chunks = group[_COLUMNS][1][1]
            if len(chunks) != len(self._known):
                raise pa.ArrowInvalid("A row group has another number of columns than the schema.")
            for number, chunk in enumerate(chunks):
                declared = _declared(number, chunk)
                if declared not in self._known[number]:
                    self._known[number].append(declared)
                yield declared


def _declared(number: int, chunk: Struct) -> Declared:
    if _META not in chunk or chunk.keys() & {_FILE_PATH, _CRYPTO, _ENCRYPTED}:
        raise Uncovered("column chunks that are encrypted or lie in another file")
    meta: Struct = chunk[_META][1]
    return Declared(
        column=number,
        pattern=write_struct({key: meta[key] for key in _DECLARING})[:-1],
        encodings=tuple(ENCODING_NAMES.get(code, f"number {code}") for code in meta[_ENCODINGS][1][1]),
        codec=codec_name(meta),
    )


def codec_name(meta: Struct) -> str:
    """Of a chunk's metadata."""
    return CODEC_NAMES.get(meta[_CODEC][1], f"number {meta[_CODEC][1]}")


def _facts(declared: Collection[Declared]) -> ChunkFacts:
    encodings = frozenset(encoding for item in declared for encoding in item.encodings)
    codecs = frozenset(item.codec for item in declared)
    _refuse("encoding", encodings - ENCODINGS)
    _refuse("compression", codecs - CODECS)
    others = (item.column for item in declared if not DICTIONARY_ENCODINGS.issuperset(item.encodings))
    return ChunkFacts(encodings, codecs, frozenset(others))


def _refuse(what: str, names: Collection[str]) -> None:
    if names:
        raise Uncovered(f"files with the {what} {min(names)}")
