"""Thrift's compact protocol: round trips, and footers that PyArrow wrote."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepack.kernel.parquet.metadata import read_file_metadata
from icepack.kernel.parquet.thrift import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    MAP,
    STRUCT,
    TRUE,
    CompactReader,
    write_struct,
)

NUMBERS = {I16: st.integers(-(2**15), 2**15 - 1), I32: st.integers(-(2**31), 2**31 - 1)}
LEAVES: dict[int, st.SearchStrategy[Any]] = {
    **NUMBERS,
    I64: st.integers(-(2**63), 2**63 - 1),
    BINARY: st.binary(max_size=300),
    BYTE: st.integers(0, 255),
    DOUBLE: st.floats(allow_nan=False),
}
booleans = st.booleans().map(lambda value: (TRUE if value else FALSE, value))
leaves = st.sampled_from(sorted(LEAVES)).flatmap(lambda kind: LEAVES[kind].map(lambda value: (kind, value)))
lists_of_leaves = st.sampled_from(sorted(LEAVES)).flatmap(
    lambda kind: st.lists(LEAVES[kind], max_size=20).map(lambda values: (LIST, (kind, values)))
)
lists_of_booleans = st.lists(st.booleans(), max_size=20).map(lambda values: (LIST, (TRUE, values)))


def _structs(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.dictionaries(st.integers(1, 2**15 - 1) | st.integers(1, 40), inside, max_size=8)
    lists = st.lists(fields, max_size=17).map(lambda values: (LIST, (STRUCT, values)))
    return fields.map(lambda value: (STRUCT, value)) | lists


values = st.recursive(leaves | booleans | lists_of_leaves | lists_of_booleans, _structs, max_leaves=20)


@given(st.dictionaries(st.integers(1, 2**15 - 1) | st.integers(1, 40), values, max_size=10))
def test_a_struct_survives_a_round_trip(fields: dict[int, Any]) -> None:
    data = write_struct(fields)
    reader = CompactReader(data)
    assert reader.read_struct() == fields
    assert reader.position == len(data)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.sampled_from(["zstd", "snappy", "none"]))
def test_a_footer_of_pyarrow_survives_a_round_trip_byte_for_byte(sizes: list[int], codec: str) -> None:
    table = pa.table({f"c{at}": pa.array([str(at)] * 4) for at, _ in enumerate(sizes)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=codec, row_group_size=2, write_page_index=True)
    data = sink.getvalue()
    length = int.from_bytes(data.to_pybytes()[-8:-4], "little")
    assert write_struct(read_file_metadata(data)) == data.to_pybytes()[-8 - length : -8]


def test_types_that_parquet_does_not_use_are_rejected() -> None:
    with pytest.raises(ValueError, match="not used by Parquet"):
        CompactReader(bytes([0x10 | MAP, 0])).read_struct()
    with pytest.raises(ValueError, match="not used by Parquet"):
        write_struct({1: (MAP, {})})
