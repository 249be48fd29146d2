"""Sorting on disk: buckets that are even whatever order the inputs have."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from icepack.kernel.order import Order, SortKey
from icepack.kernel.task import Writing

from .kernels import Bench, column, schema_of

ROWS = 4_000
SCHEMA = schema_of(column(1, "id", "long"), column(2, "word", "string"))


@pytest.mark.parametrize("files", [1, 3])
def test_files_that_are_sorted_in_themselves_do_not_skew_the_buckets(bench: Bench, files: int) -> None:
    """A sample of their first row groups alone would have all later rows in the last bucket."""
    each = ROWS // files
    inputs = [
        bench.write(
            SCHEMA,
            {"id": list(range(number, each * files, files)), "word": [f"w{at}" for at in range(each)]},
            row_group_size=100,
        )
        for number in range(files)
    ]
    key = SortKey(field_id=1, descending=True, nulls_first=True)
    order = Order(kind="sort", keys=(key,)).to_dict()
    stored = sum(file.bytes for file in inputs)
    written, table = bench.run(SCHEMA, inputs, order=order, writing=Writing(codec="zstd", row_group_bytes=stored // 20))
    assert table is not None
    assert table["id"].to_pylist() == sorted(range(each * files), reverse=True)
    (output,) = written.files
    metadata = pq.ParquetFile(output.path.removeprefix("file://")).metadata
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert len(sizes) >= 15
    assert max(sizes) < 2 * ROWS / 15
