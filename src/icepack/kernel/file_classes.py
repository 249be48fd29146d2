"""Counts the classes of a task's inputs: files of one class were written alike and are read alike."""

from __future__ import annotations

from threading import Lock
from typing import Any

import pyarrow as pa

from icepack.kernel.parquet.column_chunks import ChunkFacts
from icepack.kernel.parquet.file_schema import FileSchema
from icepack.kernel.task import FileClassSeen, Input

_Key = tuple[str, str, frozenset[str], frozenset[str], bool]


class FileClasses:
    def __init__(self) -> None:
        self._seen: dict[_Key, list[Any]] = {}
        self._lock = Lock()

    def add(self, item: Input, schema: FileSchema, writer: str, facts: ChunkFacts) -> None:
        key = (schema.text, writer, facts.encodings, facts.codecs, schema.has_ids)
        with self._lock:
            counts = self._seen.setdefault(key, [0, 0, item.path])
            counts[0] += 1
            counts[1] += item.rows

    def seen(self) -> tuple[FileClassSeen, ...]:
        return tuple(
            FileClassSeen(description=_description(key), files=files, rows=rows, example=example)
            for key, (files, rows, example) in self._seen.items()
        )


def _description(key: _Key) -> dict[str, Any]:
    schema, writer, encodings, codecs, has_ids = key
    return {
        "schema": schema,
        "writer": writer,
        "encodings": sorted(encodings),
        "codecs": sorted(codecs),
        "has_field_ids": has_ids,
        "library": f"pyarrow {pa.__version__}",
    }
