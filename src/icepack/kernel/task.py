"""What one task is told and what it answers; plain data, since it travels to executors and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Pair = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A data file, or some of its rows."""

    path: str
    bytes: int
    records: int
    sequence_number: int
    first_row_id: int | None = None
    start: int = 0
    stop: int | None = None
    """Rows `start` up to `stop` of the file; all that follow when None."""
    position_deletes: tuple[int, ...] = ()
    """Positions in `Task.position_deletes`."""
    vector: tuple[str, int, int] | None = None
    """The deletion vector: Puffin file, offset, length."""
    constants: Mapping[int, Any] = field(default_factory=dict)
    """Field id → value in Iceberg's JSON, of the source columns of identity partition fields. It wins over whatever the
    file holds."""

    @property
    def rows(self) -> int:
        return (self.records if self.stop is None else self.stop) - self.start

    @property
    def bytes_per_row(self) -> float:
        return self.bytes / max(self.records, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    path: str
    bytes: int
    sequence_number: int = 0
    equality_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The table's properties, as far as they say how Parquet is written."""

    codec: str | None = None
    """None where the table does not say: then that of its files."""
    level: int | None = None
    row_group_bytes: int = 128 * 2**20
    page_bytes: int = 2**20
    page_rows: int = 20_000
    dictionary_bytes: int = 2 * 2**20
    as_found: bool = False
    """Whether the table is silent about what a file does not tell of itself, such as the compression's level: then row
    groups may stay as they are."""
    longest_bound: int | None = 16
    """Characters or bytes of a value that any column's metrics keep; None for all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One output file, or several when their rows are sorted together."""

    outputs: tuple[str, ...]
    """Where they go, with ATTEMPT where the number of the attempt belongs."""
    schema: Json
    inputs: tuple[Input, ...]
    position_deletes: tuple[DeleteFile, ...] = ()
    equality_deletes: tuple[DeleteFile, ...] = ()
    lineage: bool = False
    name_mapping: list[Json] | None = None
    order: Json | None = None
    writing: Writing = field(default_factory=Writing)
    threads: int = 1
    memory_bytes: int = 512 * 2**20

    @property
    def rows(self) -> int:
        return sum(item.rows for item in self.inputs)

    @property
    def may_lose(self) -> bool:
        """Whether deletes apply to any of its inputs."""
        vectors = any(item.vector is not None for item in self.inputs)
        return vectors or bool(self.position_deletes or self.equality_deletes)


ATTEMPT = "ATTEMPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    path: str
    bytes: int
    rows: int
    nan_counts: dict[int, int]
    bounds: dict[int, Pair] = field(default_factory=dict)
    """Lower and upper, of the columns of which the footer does not tell them exactly."""
    split_offsets: tuple[int, ...] = ()
    """Where its row groups begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileClassSeen:
    """Inputs that were written alike."""

    description: Json
    """`schema`, `writer`, `encodings`, `codecs`, `has_field_ids` and `library`; can be written as JSON."""
    files: int
    rows: int
    example: str
    """The location of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a task did; there is no file when deletes left no row to write."""

    files: tuple[OutputFile, ...]
    rows_in: int
    rows_dropped: int
    requests: int
    copied_bytes: int = 0
    """Of the outputs: what was taken over without being decoded."""
    peak_bytes: int = 0
    classes: tuple[FileClassSeen, ...] = ()
    """Of the inputs, each once."""

    @property
    def rows_out(self) -> int:
        return sum(file.rows for file in self.files)
