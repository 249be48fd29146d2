"""PyIceberg's Avro reader, taught to skip maps and lists that nobody asked for, and to read every logical type.

The reader as shipped can leave out plain fields, but insists on reading every map and list; a manifest's column
statistics are maps, and decoding them is most of the work of reading it. It also refuses a whole manifest whose
partitions have a logical type that it does not know, as nanoseconds.
"""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader
from pyiceberg.avro.reader import BinaryReader, IntegerReader, MapReader, OptionReader, Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor, construct_reader
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, MapType, TimestampNanoType, TimestamptzNanoType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion


class _Lenient(SchemaPartnerAccessor):
    """No partner means: skip this field and all that is in it."""

    def field_partner(self, partner: IcebergType | None, field_id: int, field_name: str) -> IcebergType | None:
        return None if partner is None else super().field_partner(partner, field_id, field_name)

    def list_element_partner(self, partner_list: IcebergType | None) -> IcebergType | None:
        return None if partner_list is None else super().list_element_partner(partner_list)

    def map_key_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_key_partner(partner_map)

    def map_value_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_value_partner(partner_map)


class _QuickMap(MapReader):
    """Skips numbers by number faster by reading them: that is one call for all, and not two for each."""

    def skip(self, decoder: BinaryDecoder) -> None:
        if isinstance(self.key, IntegerReader) and isinstance(self.value, IntegerReader | BinaryReader):
            self.read(decoder)
        else:
            super().skip(decoder)


class _Resolver(ReadSchemaResolver):
    def map(self, map_type: MapType, expected_map: Any, key_reader: Reader, value_reader: Reader) -> Reader:
        super().map(map_type, expected_map, key_reader, value_reader)
        return _QuickMap(key_reader, value_reader if map_type.value_required else OptionReader(value_reader))


class _LogicalTypes(AvroSchemaConversion):
    """Knows nanoseconds; reads a logical type that it does not know as the type below it, as Avro asks of readers."""

    def _convert_logical_type(self, avro_logical_type: dict[str, Any]) -> IcebergType:
        if avro_logical_type["logicalType"] == "timestamp-nanos":
            return TimestamptzNanoType() if avro_logical_type.get("adjust-to-utc") is True else TimestampNanoType()
        try:
            return super()._convert_logical_type(avro_logical_type)
        except ValueError:
            plain = {key: value for key, value in avro_logical_type.items() if key != "logicalType"}
            return self._convert_schema(plain if len(plain) > 1 else plain["type"])


class _Header(AvroFileHeader):
    def get_schema(self) -> Schema:
        return _LogicalTypes().avro_to_iceberg(json.loads(self.meta["avro.schema"]))


class ProjectedAvroFile(AvroFile[Record]):
    """Reads just the fields of the read schema."""

    def _read_header(self) -> AvroFileHeader:
        header: AvroFileHeader = construct_reader(META_SCHEMA, {-1: _Header}).read(self.decoder)
        return header

    def __enter__(self) -> ProjectedAvroFile:
        wanted: Any = self.read_schema
        self.read_schema = None
        super().__enter__()
        self.read_schema = wanted
        resolver: Any = _Resolver(self.read_types, self.read_enums)
        accessor: Any = _Lenient()
        self.reader = visit_with_partner(self.schema, wanted, resolver, accessor)
        return self
