"""File classes: how many inputs were written in the same way."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq

from .harness import KernelHarness, column, schema_of


def test_file_classes_are_counted(harness: KernelHarness) -> None:
    schema = schema_of(column(1, "id", "long"), column(2, "word", "string"))
    rows = {"id": [1, 2], "word": ["a", "b"]}
    usual = [harness.write(schema, rows) for _ in range(3)]
    other = [harness.write(schema, rows, compression="gzip"), harness.write(schema, rows, use_dictionary=False)]
    older = harness.write(schema_of(column(1, "id", "int")), {"id": [1]})
    written, _ = harness.run(schema, [*usual, *other, older])
    assert json.loads(json.dumps([seen.description for seen in written.classes]))
    assert [(seen.files, seen.rows, seen.example) for seen in written.classes] == [
        (3, 6, usual[0].path),
        (1, 2, other[0].path),
        (1, 2, other[1].path),
        (1, 1, older.path),
    ]
    assert written.classes[0].description == {
        "schema": "optional INT64 id id=1; optional BYTE_ARRAY STRING word id=2",
        "writer": pq.ParquetFile(usual[0].path.removeprefix("file://")).metadata.created_by,
        "encodings": ["PLAIN", "RLE", "RLE_DICTIONARY"],
        "codecs": ["SNAPPY"],
        "has_field_ids": True,
        "library": f"pyarrow {pa.__version__}",
    }


def test_a_file_that_is_opened_twice_is_counted_once(harness: KernelHarness) -> None:
    schema = schema_of(column(1, "id", "long"))
    files = [harness.write(schema, {"id": [at, at + 1]}) for at in range(4)]
    order = {"kind": "sort", "keys": [{"field_id": 1, "descending": True, "nulls_first": True}]}
    written, _ = harness.run(schema, files, sort_order=order)
    assert [(seen.files, seen.rows) for seen in written.classes] == [(4, 8)]
