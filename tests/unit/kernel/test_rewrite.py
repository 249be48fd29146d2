"""Limits of a whole rewrite."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.task import InputFile

from .harness import KernelHarness, column, schema_of
from .parquet_files import field_with_id


def test_more_rows_than_pyarrow_writes_at_once(harness: KernelHarness) -> None:
    """Booleans take so few bytes that all of them would go into one row group."""
    count = 2**26 + 5
    table = pa.table([pa.repeat(pa.scalar(True), count)], schema=pa.schema([field_with_id(1, pa.bool_())]))
    path = harness.folder / "booleans.parquet"
    pq.write_table(table, path, row_group_size=2**24, store_schema=False, compression="zstd")
    file = InputFile(path=path.as_uri(), bytes=path.stat().st_size, records=count, sequence_number=1)
    written, _ = harness.run(schema_of(column(1, "c", "boolean")), [file])
    assert written.rows_out == count
