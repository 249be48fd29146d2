"""An Avro reader for manifests that skips the fields that are not in the read schema, maps and lists included.

It extends PyIceberg's reader, which can skip primitive fields but always decodes maps and lists: a manifest's column
statistics are maps, and decoding them is most of the work of reading it. PyIceberg also rejects a manifest if a
partition field has an unknown logical type, such as nanosecond timestamps; this reader supports them.
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


class _OptionalPartnerAccessor(SchemaPartnerAccessor):
    """Skips a field with everything below it if the read schema does not contain it."""

    def field_partner(self, partner: IcebergType | None, field_id: int, field_name: str) -> IcebergType | None:
        return None if partner is None else super().field_partner(partner, field_id, field_name)

    def list_element_partner(self, partner_list: IcebergType | None) -> IcebergType | None:
        return None if partner_list is None else super().list_element_partner(partner_list)

    def map_key_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_key_partner(partner_map)

    def map_value_partner(self, partner_map: IcebergType | None) -> IcebergType | None:
        return None if partner_map is None else super().map_value_partner(partner_map)


class _FastSkipMapReader(MapReader):
    """Skips a map with integer keys by reading it: that is one call for the whole map instead of two per entry."""

    def skip(self, decoder: BinaryDecoder) -> None:
        if isinstance(self.key, IntegerReader) and isinstance(self.value, IntegerReader | BinaryReader):
            self.read(decoder)
        else:
            super().skip(decoder)


class _ProjectionResolver(ReadSchemaResolver):
    def map(self, map_type: MapType, expected_map: Any, key_reader: Reader, value_reader: Reader) -> Reader:
        super().map(map_type, expected_map, key_reader, value_reader)
        return _FastSkipMapReader(key_reader, value_reader if map_type.value_required else OptionReader(value_reader))


class _LenientSchemaConversion(AvroSchemaConversion):
    """Supports nanosecond timestamps, and reads unknown logical types as their base type, as the Avro spec requires."""

    def _convert_logical_type(self, avro_logical_type: dict[str, Any]) -> IcebergType:
        if avro_logical_type["logicalType"] == "timestamp-nanos":
            return TimestamptzNanoType() if avro_logical_type.get("adjust-to-utc") is True else TimestampNanoType()
        try:
            return super()._convert_logical_type(avro_logical_type)
        except ValueError:
            base = {key: value for key, value in avro_logical_type.items() if key != "logicalType"}
            return self._convert_schema(base if len(base) > 1 else base["type"])


class _LenientHeader(AvroFileHeader):
    def get_schema(self) -> Schema:
        return _LenientSchemaConversion().avro_to_iceberg(json.loads(self.meta["avro.schema"]))


class ProjectedAvroFile(AvroFile[Record]):
    """An Avro file of which only the fields in the read schema are decoded."""

    def _read_header(self) -> AvroFileHeader:
        header: AvroFileHeader = construct_reader(META_SCHEMA, {-1: _LenientHeader}).read(self.decoder)
        return header

    def __enter__(self) -> ProjectedAvroFile:
        read_schema: Any = self.read_schema
        # Without a read schema, the parent builds a reader for the file schema, which the projecting one then replaces.
        self.read_schema = None
        super().__enter__()
        self.read_schema = read_schema
        resolver: Any = _ProjectionResolver(self.read_types, self.read_enums)
        accessor: Any = _OptionalPartnerAccessor()
        self.reader = visit_with_partner(self.schema, read_schema, resolver, accessor)
        return self
