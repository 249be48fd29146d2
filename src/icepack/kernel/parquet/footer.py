"""The footer of a Parquet file, fetched with one request and shared by all who need something of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.parquet.column_chunks import KnownChunks
from icepack.kernel.parquet.file_schema import FileSchema, parse_schema

TAIL_BYTES = 64 * 2**10
_MAGIC, _ENCRYPTED_MAGIC = b"PAR1", b"PARE"
_ARROW_KEY, _UNKNOWN_KEY = b"ARROW:schema", b"ARROW_schema"
_KNOWN_SCHEMAS = 64


def read_footer_bytes(file: Any, size: int) -> bytes:
    """Of a file of this size: the Thrift structure, without its length and the magic number behind it."""
    tail: bytes = file.read_at(min(size, TAIL_BYTES), max(size - TAIL_BYTES, 0))
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise Uncovered("encrypted Parquet files")
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != _MAGIC or length + 8 > size:
        raise pa.ArrowInvalid("Not a Parquet file: there is no footer at its end.")
    if length + 8 > len(tail):
        tail = file.read_at(length + 8, size - length - 8)
    return tail[-8 - length : -8]


def has_arrow_schema(footer: bytes) -> bool:
    """True also for a file that has the name of the key somewhere else, which does no harm."""
    return _ARROW_KEY in footer


def metadata_of(footer: bytes, schema: FileSchema) -> pq.FileMetaData:
    """As PyArrow reads it, without the Arrow schema that some writers put beside Parquet's.

    Iceberg's readers do not know that schema. With it, PyArrow would return types such as fixed-size lists, views and
    durations for what is a list, a string or a number to everyone else.
    """
    if has_arrow_schema(footer):
        end = len(schema.prefix)
        footer = footer[:end] + footer[end:].replace(_ARROW_KEY, _UNKNOWN_KEY)
    return pq.read_metadata(pa.BufferReader(footer + len(footer).to_bytes(4, "little") + _MAGIC))


class KnownSchemas:
    """Schemas that were parsed already. The files of a table have few of them, and all bytes of one are compared."""

    def __init__(self) -> None:
        self._known: list[FileSchema] = []
        self._chunks: dict[bytes, KnownChunks] = {}

    def of(self, footer: bytes) -> FileSchema:
        for schema in self._known:
            if footer.startswith(schema.prefix):
                return schema
        schema = parse_schema(footer)
        self._known = [schema, *self._known[: _KNOWN_SCHEMAS - 1]]
        return schema

    def chunks(self, schema: FileSchema) -> KnownChunks:
        """What is known of the chunks of files with this schema."""
        found = self._chunks.get(schema.prefix)
        if found is None:
            found = self._chunks[schema.prefix] = KnownChunks(schema)
        return found
