"""The input and the result of one rewrite task: plain data that is sent to executors and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
# Lower and upper bound of a column in Iceberg's binary single-value serialization.
EncodedBounds = tuple[bytes, bytes]

# Stands in an output path where the attempt number of the Spark task goes.
ATTEMPT_PLACEHOLDER = "ATTEMPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A data file, or a range of its rows."""

    path: str
    bytes: int
    records: int
    sequence_number: int
    first_row_id: int | None = None
    # The rows from `start` up to `stop` are read; up to the end of the file if `stop` is None.
    start: int = 0
    stop: int | None = None
    # Indexes into `Task.position_deletes`.
    position_deletes: tuple[int, ...] = ()
    # Puffin file, offset and length of the deletion vector.
    deletion_vector: tuple[str, int, int] | None = None
    # Values of the source columns of identity partition fields, by field id, in Iceberg's JSON single-value
    # serialization. They override the values in the file.
    constants: Mapping[int, Any] = field(default_factory=dict)

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
class WriteProperties:
    """The table properties that control how Parquet files are written."""

    # None if the table does not set it; then the codec of its files is used.
    codec: str | None = None
    level: int | None = None
    row_group_bytes: int = 128 * 2**20
    page_bytes: int = 2**20
    page_rows: int = 20_000
    dictionary_bytes: int = 2 * 2**20
    # Whether column chunks may be copied unchanged: only if the table sets nothing that a file does not record about
    # itself, such as the compression level.
    may_copy_chunks: bool = False
    # Maximum length of any column's bounds, in characters or bytes; None if a column's metrics keep full values.
    max_bound_length: int | None = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Writes one output file, or several if their rows are sorted together."""

    # Paths of the output files, with ATTEMPT_PLACEHOLDER in place of the attempt number.
    outputs: tuple[str, ...]
    schema: Json
    inputs: tuple[InputFile, ...]
    position_deletes: tuple[DeleteFile, ...] = ()
    equality_deletes: tuple[DeleteFile, ...] = ()
    lineage: bool = False
    name_mapping: list[Json] | None = None
    sort_order: Json | None = None
    write_properties: WriteProperties = field(default_factory=WriteProperties)
    threads: int = 1
    memory_bytes: int = 512 * 2**20

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.inputs)

    @property
    def has_deletes(self) -> bool:
        """Whether deletes apply to any of the inputs."""
        has_vectors = any(file.deletion_vector is not None for file in self.inputs)
        return has_vectors or bool(self.position_deletes or self.equality_deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    path: str
    bytes: int
    rows: int
    nan_counts: dict[int, int]
    # By field id, for the columns whose bounds the footer does not contain exactly.
    bounds: dict[int, EncodedBounds] = field(default_factory=dict)
    # Where the row groups start.
    split_offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileClassCount:
    """How many inputs belong to one file class, which are files that were written in the same way."""

    # `schema`, `writer`, `encodings`, `codecs`, `has_field_ids` and `library`; can be written as JSON.
    description: Json
    files: int
    rows: int
    # The location of one of the files.
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """What a task did. There are no files if deletes left no row to write."""

    files: tuple[OutputFile, ...]
    rows_in: int
    rows_dropped: int
    requests: int
    # How many bytes of the outputs were copied from the inputs without being decoded.
    copied_bytes: int = 0
    peak_bytes: int = 0
    # The file classes of the inputs, each once.
    classes: tuple[FileClassCount, ...] = ()

    @property
    def rows_out(self) -> int:
        return sum(file.rows for file in self.files)
