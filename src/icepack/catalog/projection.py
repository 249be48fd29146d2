"""PyIceberg's Avro reader, taught to skip maps and lists that nobody asked for.

The reader as shipped can leave out plain fields, but insists on reading every map and list; a manifest's column
statistics are maps, and decoding them is most of the work of reading it.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import BinaryReader, IntegerReader, MapReader, OptionReader, Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor
from pyiceberg.schema import visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, MapType


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


class ProjectedAvroFile(AvroFile[Record]):
    """Reads just the fields of the read schema."""

    def __enter__(self) -> ProjectedAvroFile:
        wanted: Any = self.read_schema
        self.read_schema = None
        super().__enter__()
        self.read_schema = wanted
        resolver: Any = _Resolver(self.read_types, self.read_enums)
        accessor: Any = _Lenient()
        self.reader = visit_with_partner(self.schema, wanted, resolver, accessor)
        return self
