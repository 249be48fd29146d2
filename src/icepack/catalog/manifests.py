"""Reads manifests into Arrow tables, using a cache so that each manifest is fetched only once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from icepack.catalog.manifest_cache import ManifestCache

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema

# Values of the `status` column. Existing entries (0) need no name here.
ADDED, DELETED = 1, 2
# Values of the `content` column. The spec knows 0 to 2; 3 marks deletion vectors, which it counts as position deletes.
DATA, POSITION_DELETES, EQUALITY_DELETES, DELETION_VECTOR = 0, 1, 2, 3

# The reserved field id of `file_path` in position delete files.
_DELETE_FILE_PATH_FIELD_ID = 2147483546
_READER_THREADS = 8
# Part of every cache key; increase it when ENTRY_SCHEMA or the encoding of its values changes.
_CACHE_LAYOUT_VERSION = 2

ENTRY_SCHEMA = pa.schema(
    [
        ("status", pa.int8()),
        ("content", pa.int8()),
        ("path", pa.string()),
        ("format", pa.string()),
        ("partition", pa.string()),
        ("bytes", pa.int64()),
        ("records", pa.int64()),
        ("sequence_number", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("spec_id", pa.int32()),
        ("referenced", pa.string()),
        ("file_bytes", pa.int64()),
    ]
)


class ManifestReader:
    """Reads manifests through the cache; only manifests that are not cached cause a storage request."""

    def __init__(self, cache: ManifestCache) -> None:
        self._cache = cache

    def entries(self, io: FileIO, manifests: Iterable[ManifestFile]) -> pa.Table:
        """Returns all entries of all the manifests, deleted ones included."""
        by_key = {_cache_key(manifest): manifest for manifest in manifests}
        bodies = self._cache.get(list(by_key))
        missing = [key for key in by_key if key not in bodies]
        fresh = self._read_all(io, [by_key[key] for key in missing])
        self._cache.put({key: _to_bytes(table) for key, table in zip(missing, fresh, strict=True)})
        cached = [_from_bytes(body) for body in bodies.values()]
        return pa.concat_tables([*cached, *fresh]) if cached or fresh else ENTRY_SCHEMA.empty_table()

    def _read_all(self, io: FileIO, manifests: list[ManifestFile]) -> list[pa.Table]:
        if len(manifests) < 2:
            return [read_manifest(io, manifest) for manifest in manifests]
        with ThreadPoolExecutor(_READER_THREADS) as pool:
            return list(pool.map(lambda manifest: read_manifest(io, manifest), manifests))


def filter_live(entries: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    return entries.filter(pc.not_equal(entries["status"], DELETED))


def _cache_key(manifest: ManifestFile) -> str:
    identity = f"{_CACHE_LAYOUT_VERSION}|{manifest.manifest_path}|{manifest.manifest_length}|{manifest.sequence_number}"
    return hashlib.sha256(identity.encode()).hexdigest()


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _from_bytes(body: bytes) -> pa.Table:
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


def read_manifest(io: FileIO, manifest: ManifestFile) -> pa.Table:
    """Reads one manifest without its column statistics, which maintenance does not need."""
    from icepack.catalog.avro_projection import ProjectedAvroFile

    columns: list[list[Any]] = [[] for _ in ENTRY_SCHEMA]
    with ProjectedAvroFile(io.new_input(manifest.manifest_path), _read_schema(manifest)) as reader:
        for entry in reader:
            for column, value in zip(columns, _to_row(entry, manifest), strict=True):
                column.append(value)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ENTRY_SCHEMA, strict=True)]
    return pa.table(arrays, schema=ENTRY_SCHEMA)


def _to_row(entry: Any, manifest: ManifestFile) -> tuple[Any, ...]:
    status, snapshot_id, sequence_number, file = entry[0], entry[1], entry[2], entry[3]
    inherits = status == ADDED or manifest.sequence_number == 0
    if sequence_number is None and inherits:
        sequence_number = manifest.sequence_number
    content = file[0] or DATA
    file_format = str(file[2]).lower()
    if content == POSITION_DELETES and file_format == "puffin":
        content = DELETION_VECTOR
    return (
        status,
        content,
        file[1],
        file_format,
        encode_partition(file[3]),
        file[7] if content == DELETION_VECTOR and file[7] is not None else file[5],
        file[4],
        sequence_number or 0,
        snapshot_id if snapshot_id is not None else manifest.added_snapshot_id,
        manifest.partition_spec_id,
        _referenced_data_file(file, content),
        file[5],
    )


def _referenced_data_file(file: Any, content: int) -> str | None:
    """The only data file that a delete file applies to, if that is known."""
    if content not in (POSITION_DELETES, DELETION_VECTOR):
        return None
    if file[6] is not None:
        return str(file[6])
    lower = (file[8] or {}).get(_DELETE_FILE_PATH_FIELD_ID)
    upper = (file[9] or {}).get(_DELETE_FILE_PATH_FIELD_ID)
    # Bounds may be truncated, so only equal bounds identify a file.
    if lower is not None and lower == upper:
        return bytes(lower).decode("utf-8", "replace")
    return None


def _read_schema(manifest: ManifestFile) -> Schema:
    from pyiceberg.manifest import ManifestContent
    from pyiceberg.schema import Schema
    from pyiceberg.types import BinaryType, IntegerType, LongType, MapType, NestedField, StringType, StructType

    fields = [
        NestedField(134, "content", IntegerType(), required=False, initial_default=0),
        NestedField(100, "file_path", StringType(), required=True),
        NestedField(101, "file_format", StringType(), required=True),
        NestedField(102, "partition", StructType(), required=True),
        NestedField(103, "record_count", LongType(), required=True),
        NestedField(104, "file_size_in_bytes", LongType(), required=True),
        NestedField(143, "referenced_data_file", StringType(), required=False),
        NestedField(145, "content_size_in_bytes", LongType(), required=False),
    ]
    if manifest.content is ManifestContent.DELETES:
        fields.append(NestedField(125, "lower_bounds", MapType(126, IntegerType(), 127, BinaryType()), required=False))
        fields.append(NestedField(128, "upper_bounds", MapType(129, IntegerType(), 130, BinaryType()), required=False))
    return Schema(
        NestedField(0, "status", IntegerType(), required=True),
        NestedField(1, "snapshot_id", LongType(), required=False),
        NestedField(3, "sequence_number", LongType(), required=False),
        NestedField(2, "data_file", StructType(*fields), required=True),
    )


def encode_partition(record: Any) -> str:
    """Encodes a partition tuple as JSON; values that JSON does not support are tagged with their type."""
    return json.dumps([_encode(record[position]) for position in range(len(record))], separators=(",", ":"))


def decode_partition(text: str) -> tuple[Any, ...]:
    return tuple(_decode(value) for value in json.loads(text))


def _encode(value: Any) -> Any:
    match value:
        case bytes():
            return {"bytes": value.hex()}
        case Decimal() | UUID():
            return {type(value).__name__.lower(): str(value)}
        case datetime() | date() | time():
            return {type(value).__name__: value.isoformat()}
        case _:
            return value


_DECODERS: dict[str, Any] = {
    "bytes": bytes.fromhex,
    "decimal": Decimal,
    "uuid": UUID,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
}


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _DECODERS[kind](text)
    return value
