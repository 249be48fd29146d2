"""Row groups that are large already: their column chunks are copied, byte for byte, instead of being decoded.

A column that does not lie there as it would in the output is encoded beside the copied ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from icepack.kernel.arrow_schema import number_of
from icepack.kernel.input_file import Piece, Source
from icepack.kernel.live_rows import Rows
from icepack.kernel.parquet.chunk_writer import CHUNK_META, COMPRESSED
from icepack.kernel.parquet.copy_chunks import Copied, Form, StoredFile
from icepack.kernel.task import Task

LEAST_SHARE = 0.25
"""Of the size that the table wants for its row groups: one that is smaller would stay so."""
MOST_SHARE = 1.1
LEAST_COPIED = 0.5
"""Of a row group's bytes: where most has to be encoded anyway, its rows may as well share row groups with others."""


@dataclass(frozen=True, slots=True)
class Original:
    """A row group of an input, most of which can be copied."""

    piece: Piece
    columns: Mapping[int, Copied]
    """By field id; the others are encoded."""


class Copier:
    """Finds the row groups of the inputs that can be copied."""

    def __init__(self, task: Task, rows: Rows, schema: pa.Schema, form: Form) -> None:
        self._task = task
        self._rows = rows
        self._schema = schema
        self._form = form
        self._last: StoredFile | None = None
        self.least_bytes = task.writing.row_group_bytes * LEAST_SHARE

    def original(self, piece: Piece, most_rows: int) -> Original | None:
        """Of a piece that is as large as row groups should be and has lost no row; None for all others."""
        if not self._task.writing.as_found or piece.stored_bytes < self.least_bytes:
            return None
        if piece.rows > most_rows or not piece.is_whole or self._rows.may_lose(piece.source.item):
            return None
        file = self._file(piece.source)
        size = sum(chunk[CHUNK_META][1][COMPRESSED][1] for chunk in file.chunks(piece.group))
        if not self.least_bytes <= size <= self._task.writing.row_group_bytes * MOST_SHARE:
            return None
        found = {number_of(field): self._form.found(file, piece.group, field) for field in self._schema}
        columns = {number: copied for number, copied in found.items() if copied is not None}
        copied = sum(column.copied_bytes for column in columns.values())
        return Original(piece, columns) if copied >= size * LEAST_COPIED else None

    def _file(self, source: Source) -> StoredFile:
        """Row groups of a file come one after another."""
        if self._last is None or self._last.source is not source:
            self._last = StoredFile(source, self._task)
        return self._last
