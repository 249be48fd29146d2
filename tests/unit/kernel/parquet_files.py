"""Parquet files with given Arrow fields, as other writers than Iceberg's produce them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.task import InputFile

from .harness import Json, KernelHarness

FIELD_ID_KEY = b"PARQUET:field_id"


def field_with_id(number: int, kind: pa.DataType, name: str = "c", *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {FIELD_ID_KEY: str(number)})


def file_of(harness: KernelHarness, *columns: tuple[pa.Field, Any], **options: Any) -> InputFile:
    """Writes a file with an Arrow schema in addition to Parquet's, as PyArrow and Polars do."""
    path = harness.folder / f"file-{len(list(harness.folder.iterdir()))}.parquet"
    schema = pa.schema([field for field, _ in columns])
    arrays = [values if isinstance(values, pa.Array) else pa.array(values, field.type) for field, values in columns]
    table = pa.table(arrays, schema=schema)
    pq.write_table(table, path, **options)
    return InputFile(path=path.as_uri(), bytes=path.stat().st_size, records=table.num_rows, sequence_number=1)


def list_of(number: int, kind: Any) -> Json:
    return {"type": "list", "element-id": number, "element": kind, "element-required": False}


def struct_of(*parts: Json) -> Json:
    return {"type": "struct", "fields": list(parts)}
