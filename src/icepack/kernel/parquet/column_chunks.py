"""Finds the encodings and codecs of a file's column chunks from the bytes of its footer.

A footer states type, encodings, path and codec of a chunk one after another, so chunks that are declared alike share
these bytes. Searching later footers for them takes a tenth of the time of asking PyArrow for each chunk. A footer in
which they are not found is parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.parquet.file_schema import FileSchema
from icepack.kernel.parquet.metadata import (
    CHUNK_METADATA,
    COLUMN_CODEC,
    COLUMN_ENCODINGS,
    COLUMN_PATH,
    COLUMN_TYPE,
    ColumnChunk,
    ColumnMetaData,
    get_codec,
    get_column_chunks,
    get_column_metadata,
    get_encodings,
    get_row_groups,
    is_encrypted_or_external,
    parse_file_metadata,
)
from icepack.kernel.parquet.thrift import write_struct
from icepack.kernel.supported_files import CODECS, DICTIONARY_ENCODINGS, ENCODINGS

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

_DECLARED_FIELDS = (COLUMN_TYPE, COLUMN_ENCODINGS, COLUMN_PATH, COLUMN_CODEC)


@dataclass(frozen=True, slots=True)
class ChunkEncodings:
    """The encodings and codecs of one file."""

    encodings: frozenset[str]
    codecs: frozenset[str]
    # Indexes of the columns that PyArrow cannot read as dictionaries.
    no_dictionary: frozenset[int]


@dataclass(frozen=True, slots=True)
class ChunkDeclaration:
    """One way in which the footer declares chunks of one column."""

    column: int
    pattern: bytes
    encodings: tuple[str, ...]
    codec: str


class ChunkDeclarationCache:
    """Remembers how chunks of files with one schema were declared so far."""

    def __init__(self, schema: FileSchema) -> None:
        self._start = len(schema.prefix)
        self._declarations: list[list[ChunkDeclaration]] = [[] for _ in schema.paths]
        self._encodings: dict[frozenset[ChunkDeclaration], ChunkEncodings] = {}

    def find_encodings(self, footer: bytes, row_groups: int) -> ChunkEncodings:
        """Raises UnsupportedByKernel for encodings and codecs that the kernel does not support."""
        recognized = self._recognize(footer, row_groups)
        declarations = frozenset(self._parse(footer) if recognized is None else recognized)
        if declarations not in self._encodings:
            self._encodings[declarations] = _combine(declarations)
        return self._encodings[declarations]

    def _recognize(self, footer: bytes, row_groups: int) -> set[ChunkDeclaration] | None:
        """Returns None unless every chunk of every row group is declared in a known way, in their order."""
        recognized: set[ChunkDeclaration] = set()
        at = self._start
        for _ in range(row_groups):
            for known in self._declarations:
                matches = [(start, item) for item in known if (start := footer.find(item.pattern, at)) >= 0]
                if not matches:
                    return None
                start, item = matches[0] if len(matches) == 1 else min(matches, key=lambda match: match[0])
                recognized.add(item)
                at = start + len(item.pattern)
        return recognized

    def _parse(self, footer: bytes) -> Iterator[ChunkDeclaration]:
        for row_group in get_row_groups(parse_file_metadata(footer)):
            chunks = get_column_chunks(row_group)
            if len(chunks) != len(self._declarations):
                raise pa.ArrowInvalid(
                    f"A row group has {len(chunks)} columns where the schema has {len(self._declarations)}."
                )
            for number, chunk in enumerate(chunks):
                declaration = _parse_declaration(number, chunk)
                if declaration not in self._declarations[number]:
                    self._declarations[number].append(declaration)
                yield declaration


def _parse_declaration(number: int, chunk: ColumnChunk) -> ChunkDeclaration:
    if CHUNK_METADATA not in chunk or is_encrypted_or_external(chunk):
        raise UnsupportedByKernel("column chunks that are encrypted or stored in another file")
    column = get_column_metadata(chunk)
    return ChunkDeclaration(
        column=number,
        pattern=write_struct({field_id: column[field_id] for field_id in _DECLARED_FIELDS})[:-1],
        encodings=tuple(ENCODING_NAMES.get(code, f"number {code}") for code in get_encodings(column)),
        codec=get_codec_name(column),
    )


def get_codec_name(column: ColumnMetaData) -> str:
    codec = get_codec(column)
    return CODEC_NAMES.get(codec, f"number {codec}")


def _combine(declarations: Collection[ChunkDeclaration]) -> ChunkEncodings:
    encodings = frozenset(encoding for item in declarations for encoding in item.encodings)
    codecs = frozenset(item.codec for item in declarations)
    _check_supported("encoding", encodings - ENCODINGS)
    _check_supported("compression", codecs - CODECS)
    others = (item.column for item in declarations if not DICTIONARY_ENCODINGS.issuperset(item.encodings))
    return ChunkEncodings(encodings, codecs, frozenset(others))


def _check_supported(what: str, unsupported: Collection[str]) -> None:
    if unsupported:
        raise UnsupportedByKernel(f"files with the {what} {min(unsupported)}")
