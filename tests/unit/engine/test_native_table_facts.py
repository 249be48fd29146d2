from __future__ import annotations

import pytest

from icepack.engine.native.table_facts import TableFacts


@pytest.mark.parametrize(
    ("modes", "max_length"),
    [
        ({}, 16),
        ({"default": "counts"}, 16),
        ({"default": "truncate(3)", "column.a": "truncate(64)"}, 64),
        ({"column.a": "Full"}, None),
    ],
)
def test_bounds_are_as_long_as_the_longest_of_any_column(modes: dict[str, str], max_length: int | None) -> None:
    properties = {f"write.metadata.metrics.{name}": mode for name, mode in modes.items()}
    facts = TableFacts(
        schema={},
        spec_id=0,
        format_version=2,
        properties=properties,
        location="s3://bucket/table",
        file_io="org.apache.iceberg.aws.s3.S3FileIO",
        file_io_properties={},
    )
    assert facts.write_properties.max_bound_length == max_length
