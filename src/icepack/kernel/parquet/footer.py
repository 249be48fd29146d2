"""Reads the footer of a Parquet file with one request and caches the schemas that were parsed from footers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.parquet.column_chunks import ChunkDeclarationCache
from icepack.kernel.parquet.file_schema import FileSchema, parse_schema
from icepack.kernel.parquet.metadata import MAGIC

# How much is read from the end of a file at first. Only longer footers take a second request.
TAIL_BYTES = 64 * 2**10
_ENCRYPTED_MAGIC = b"PARE"
_ARROW_SCHEMA_KEY, _IGNORED_KEY = b"ARROW:schema", b"ARROW_schema"
_MAX_CACHED_SCHEMAS = 64


def read_footer_bytes(file: Any, size: int) -> bytes:
    """Returns the footer's Thrift struct, without the length and the magic number that follow it."""
    tail: bytes = file.read_at(min(size, TAIL_BYTES), max(size - TAIL_BYTES, 0))
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise UnsupportedByKernel("encrypted Parquet files")
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or length + 8 > size:
        raise pa.ArrowInvalid("Not a Parquet file: there is no footer at its end.")
    if length + 8 > len(tail):
        tail = file.read_at(length + 8, size - length - 8)
    return tail[-8 - length : -8]


def has_arrow_schema(footer: bytes) -> bool:
    """Whether the footer may contain an Arrow schema; the key may also occur elsewhere, which does no harm."""
    return _ARROW_SCHEMA_KEY in footer


def read_pyarrow_metadata(footer: bytes, schema: FileSchema) -> pq.FileMetaData:
    """Returns PyArrow's metadata without the Arrow schema that some writers add to Parquet's schema.

    Iceberg's readers do not know that schema. With it, PyArrow would return types such as fixed-size lists, views and
    durations where all other readers see a list, a string or a number.
    """
    if has_arrow_schema(footer):
        end = len(schema.prefix)
        footer = footer[:end] + footer[end:].replace(_ARROW_SCHEMA_KEY, _IGNORED_KEY)
    return pq.read_metadata(pa.BufferReader(footer + len(footer).to_bytes(4, "little") + MAGIC))


class FileSchemaCache:
    """Caches parsed schemas by their bytes in the footer. The files of a table have few different ones."""

    def __init__(self) -> None:
        self._schemas: list[FileSchema] = []
        self._declarations: dict[bytes, ChunkDeclarationCache] = {}

    def get_schema(self, footer: bytes) -> FileSchema:
        for schema in self._schemas:
            if footer.startswith(schema.prefix):
                return schema
        schema = parse_schema(footer)
        self._schemas = [schema, *self._schemas[: _MAX_CACHED_SCHEMAS - 1]]
        return schema

    def get_declarations(self, schema: FileSchema) -> ChunkDeclarationCache:
        """Returns the cache of column chunk declarations for files with this schema."""
        declarations = self._declarations.get(schema.prefix)
        if declarations is None:
            declarations = self._declarations[schema.prefix] = ChunkDeclarationCache(schema)
        return declarations
