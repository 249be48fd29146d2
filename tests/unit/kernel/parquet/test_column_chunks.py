"""Encodings and codecs of column chunks are found and checked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.parquet.footer import FileSchemaCache
from kernel.harness import KernelHarness, column, schema_of
from kernel.parquet_files import field_with_id, file_of


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "brotli", "none"])
def test_supported_codecs(harness: KernelHarness, codec: str) -> None:
    file = file_of(harness, (field_with_id(1, pa.int64()), [1]), compression=codec)
    written, _ = harness.run(schema_of(column(1, "c", "long")), [file])
    assert written.classes[0].description["codecs"] == ["UNCOMPRESSED" if codec == "none" else codec.upper()]


def test_unsupported_codecs(harness: KernelHarness) -> None:
    file = file_of(harness, (field_with_id(1, pa.int64()), [1]), compression="lz4")
    with pytest.raises(UnsupportedByKernel, match="the compression LZ4"):
        harness.run(schema_of(column(1, "c", "long")), [file])


ENCODED: list[tuple[pa.DataType, str, str, Any]] = [
    (pa.string(), "string", "DELTA_LENGTH_BYTE_ARRAY", "x"),
    (pa.string(), "string", "DELTA_BYTE_ARRAY", "x"),
    (pa.int64(), "long", "DELTA_BINARY_PACKED", 1),
    (pa.float64(), "double", "BYTE_STREAM_SPLIT", 1.5),
    (pa.bool_(), "boolean", "RLE", True),
]


@pytest.mark.parametrize(("stored", "kind", "encoding", "value"), ENCODED, ids=[row[2] for row in ENCODED])
def test_every_encoding_among_files_with_dictionaries(
    harness: KernelHarness, stored: pa.DataType, kind: str, encoding: str, value: Any
) -> None:
    options = {"use_dictionary": False, "column_encoding": {"c": encoding}, "data_page_version": "2.0"}
    encoded = file_of(harness, (field_with_id(1, stored), [value, None] * 20), **options)
    usual = file_of(harness, (field_with_id(1, stored), [value, None] * 20))
    for files in ([usual, encoded, usual], [encoded, usual, encoded], [usual, usual, encoded, usual, usual]):
        _, table = harness.run(schema_of(column(1, "c", kind)), files)
        assert table is not None
        assert table["c"].to_pylist() == [value, None] * 20 * len(files)


def test_unknown_encodings_are_unsupported(harness: KernelHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    from icepack.kernel.parquet import column_chunks

    monkeypatch.setattr(column_chunks, "ENCODINGS", column_chunks.ENCODINGS - {"RLE"})
    with pytest.raises(UnsupportedByKernel, match="the encoding RLE"):
        harness.run(schema_of(column(1, "c", "long")), [file_of(harness, (field_with_id(1, pa.int64()), [1]))])


@pytest.mark.parametrize("is_seen_before", [True, False])
def test_chunks_are_recognized_by_their_declaration(harness: KernelHarness, is_seen_before: bool) -> None:
    """Row groups of one file that are encoded differently, before and after files with one encoding."""
    field, other = field_with_id(1, pa.string(), "a"), field_with_id(2, pa.string(), "b")
    schema, files = pa.schema([field, other]), []
    plain, repeated = pa.array([f"{at:064d}" for at in range(40_000)]), pa.array(["x"] * 40_000)
    for kinds in ([repeated], [plain], [repeated, plain], [plain, repeated, plain]):
        path = harness.folder / f"groups-{len(files)}.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd", dictionary_pagesize_limit=4096) as writer:
            for kind in kinds:
                writer.write_table(pa.table([kind, repeated], schema=schema))
        files.append(path)
    cache = FileSchemaCache()
    for path in files if is_seen_before else reversed(files):
        data = path.read_bytes()
        raw = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
        stored, metadata = cache.get_schema(raw), pq.read_metadata(path)
        groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
        chunks = [group.column(at) for group in groups for at in range(2)]
        for _ in range(2):
            found = cache.get_declarations(stored).find_encodings(raw, len(groups))
            assert found.encodings == {encoding for chunk in chunks for encoding in chunk.encodings}
            assert found.codecs == {"ZSTD"}
