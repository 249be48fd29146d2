"""Reads the table metadata that decides whether and how the native rewrite handles a table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icepack.kernel.task import WriteProperties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODEC = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
# Settings that cannot be read from a file: with one of them, column chunks are encoded again instead of copied.
_NOT_RECORDED_IN_FILES = {
    LEVEL,
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
}
_METRICS_PREFIX = "write.metadata.metrics."
# The length to which Iceberg truncates bounds by default.
_DEFAULT_BOUND_LENGTH = 16
_TRUNCATE_MODE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Schema, properties and storage of a table."""

    schema: Mapping[str, Any]
    spec_id: int
    format_version: int
    properties: Mapping[str, str]
    location: str
    file_io: str
    file_io_properties: Mapping[str, str]

    @property
    def name_mapping(self) -> list[dict[str, Any]] | None:
        text = self.properties.get("schema.name-mapping.default")
        return None if text is None else json.loads(text)

    @property
    def write_properties(self) -> WriteProperties:
        level = self.properties.get(LEVEL)
        codec = self.properties.get(CODEC)
        return WriteProperties(
            codec=None if codec is None else codec.lower(),
            level=None if level is None else int(level),
            row_group_bytes=self._int_property("write.parquet.row-group-size-bytes", 128 * 2**20),
            page_bytes=self._int_property("write.parquet.page-size-bytes", 2**20),
            page_rows=self._int_property("write.parquet.page-row-limit", 20_000),
            dictionary_bytes=self._int_property("write.parquet.dict-size-bytes", 2 * 2**20),
            may_copy_chunks=not self.properties.keys() & _NOT_RECORDED_IN_FILES,
            max_bound_length=self._max_bound_length(),
        )

    def _max_bound_length(self) -> int | None:
        """The maximum of all columns; the commit truncates each bound to the length of its column."""
        modes = [mode.strip().lower() for name, mode in self.properties.items() if name.startswith(_METRICS_PREFIX)]
        if "full" in modes:
            return None
        lengths = [int(found[1]) for found in map(_TRUNCATE_MODE.fullmatch, modes) if found]
        return max([_DEFAULT_BOUND_LENGTH, *lengths])

    def _int_property(self, name: str, default: int) -> int:
        return int(self.properties.get(name, default))


def read_table_facts(spark: SparkSession, table: Any) -> TableFacts:
    io = table.io()
    jvm = spark.sparkContext._jvm
    parser = jvm.org.apache.iceberg.SchemaParser
    return TableFacts(
        schema=json.loads(parser.toJson(table.schema())),
        spec_id=int(table.spec().specId()),
        format_version=int(table.operations().current().formatVersion()),
        properties=_to_dict(jvm, table.properties()),
        location=str(table.location()),
        file_io=str(io.getClass().getName()),
        file_io_properties=_read_io_properties(jvm, io),
    )


def _to_dict(jvm: Any, java_map: Any) -> dict[str, str]:
    """Converts a Java map with one gateway call instead of several calls per entry."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    found: dict[str, str] = json.loads(mapper.writeValueAsString(java_map))
    return found


def _read_io_properties(jvm: Any, io: Any) -> dict[str, str]:
    """Includes the credentials that the catalog has vended for this table, if any."""
    from py4j.protocol import Py4JError

    properties = _to_dict(jvm, io.properties())
    try:
        credentials = io.credentials()
    except Py4JError:
        # Most FileIO classes have no such method.
        return properties
    for credential in credentials:
        properties |= _to_dict(jvm, credential.config())
    return properties
