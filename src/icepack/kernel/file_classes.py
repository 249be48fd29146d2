"""Counts the file classes of a task's inputs: files of one class were written alike and are read alike."""

from __future__ import annotations

from threading import Lock
from typing import Any

import pyarrow as pa

from icepack.kernel.parquet.column_chunks import ChunkEncodings
from icepack.kernel.parquet.file_schema import FileSchema
from icepack.kernel.task import FileClassCount, InputFile

_Key = tuple[str, str, frozenset[str], frozenset[str], bool]


class FileClassCounter:
    def __init__(self) -> None:
        self._counts: dict[_Key, list[Any]] = {}
        self._lock = Lock()

    def add(self, file: InputFile, schema: FileSchema, writer: str, chunks: ChunkEncodings) -> None:
        key = (schema.text, writer, chunks.encodings, chunks.codecs, schema.has_field_ids)
        with self._lock:
            counts = self._counts.setdefault(key, [0, 0, file.path])
            counts[0] += 1
            counts[1] += file.rows

    def list_counts(self) -> tuple[FileClassCount, ...]:
        return tuple(
            FileClassCount(description=_describe(key), files=files, rows=rows, example=example)
            for key, (files, rows, example) in self._counts.items()
        )


def _describe(key: _Key) -> dict[str, Any]:
    schema, writer, encodings, codecs, has_field_ids = key
    return {
        "schema": schema,
        "writer": writer,
        "encodings": sorted(encodings),
        "codecs": sorted(codecs),
        "has_field_ids": has_field_ids,
        "library": f"pyarrow {pa.__version__}",
    }
