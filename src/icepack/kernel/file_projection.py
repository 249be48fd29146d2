"""Maps the table's columns to the columns of a file, once for all files that have the same schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from threading import get_ident

import pyarrow as pa

from icepack.kernel.arrow_schema import UnsupportedByKernel, count_leaves, get_field_id, list_leaf_types
from icepack.kernel.dictionaries import apply_dictionary_types, iter_own_nulls
from icepack.kernel.parquet.file_schema import FileSchema
from icepack.kernel.parquet.footer import FileSchemaCache
from icepack.kernel.projection import (
    STRUCT_WITHOUT_FIELDS,
    NameMapping,
    allows_more_nulls,
    assign_field_ids,
    has_field_ids,
    has_struct_without_fields,
    index_by_field_id,
    is_usable_as_is,
)
from icepack.kernel.supported_files import Json, check_columns


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """How one column of the table is obtained from the columns that are read."""

    table_field: pa.Field
    field_id: int
    # None if the file does not have the column.
    file_field: pa.Field | None
    # Position among the columns that are read.
    position: int
    # The type with which the column needs no projection; None if it always needs one.
    direct_type: pa.DataType | None
    # Whether the value comes from the partition.
    is_constant: bool = False
    # Whether the file allows nulls where the table does not.
    may_have_nulls: bool = False


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How some columns of the table are read from any file with one schema."""

    wanted: Sequence[pa.Field]
    leaves: list[int]
    columns: list[ColumnMapping]


class FileProjection:
    """Maps columns of the table to those of files with one schema. The schema is checked once."""

    def __init__(
        self,
        file_schema: FileSchema,
        arrow_schema: pa.Schema,
        constants: frozenset[int],
        name_mapping: NameMapping | None,
        columns: Sequence[Json],
    ) -> None:
        self.file_schema = file_schema
        self.arrow_schema = arrow_schema
        self.constants = constants
        if file_schema.has_field_ids != has_field_ids(arrow_schema):
            raise UnsupportedByKernel("files whose field ids PyArrow does not read")
        self._fields = assign_field_ids(arrow_schema, name_mapping)
        check_columns(file_schema, self._fields, [column for column in columns if column["id"] not in constants])
        self._is_by_name = not file_schema.has_field_ids
        self._positions = dict(index_by_field_id(self._fields))
        self._first_leaf = list(accumulate((count_leaves(field.type) for field in self._fields), initial=0))
        self._plans: dict[int, ReadPlan] = {}
        # Indexes of the Parquet columns that must not be read as dictionaries.
        self.no_dictionary_leaves = _find_unsafe_dictionaries(arrow_schema)

    @property
    def fields(self) -> Sequence[pa.Field]:
        """The file's columns with their field ids."""
        return self._fields

    def plan_read(self, wanted: Sequence[pa.Field]) -> ReadPlan:
        """Caches the last plan of each thread, which reads the same columns of one file after another."""
        plan = self._plans.get(get_ident())
        if plan is None or plan.wanted is not wanted:
            self._plans[get_ident()] = plan = self._build_plan(wanted)
        return plan

    def _build_plan(self, wanted: Sequence[pa.Field]) -> ReadPlan:
        field_ids = [field_id for field in wanted if (field_id := get_field_id(field)) not in self.constants]
        present = sorted({self._positions[field_id] for field_id in field_ids if field_id in self._positions})
        read_positions = {position: index for index, position in enumerate(present)}
        leaves = [leaf for at in present for leaf in range(self._first_leaf[at], self._first_leaf[at + 1])]
        return ReadPlan(wanted, leaves, [self._map_column(field, read_positions) for field in wanted])

    def _map_column(self, field: pa.Field, read_positions: Mapping[int, int]) -> ColumnMapping:
        field_id = get_field_id(field)
        position = self._positions.get(field_id)
        if field_id in self.constants:
            return ColumnMapping(field, field_id, None, 0, direct_type=None, is_constant=True)
        if position is None:
            return ColumnMapping(field, field_id, None, 0, direct_type=None)
        file_field = self._fields[position]
        if self._is_by_name and has_struct_without_fields(file_field, field):
            raise UnsupportedByKernel(STRUCT_WITHOUT_FIELDS)
        is_direct = is_usable_as_is(file_field, field)
        direct_type = apply_dictionary_types(field, file_field.type).type if is_direct else None
        may_have_nulls = allows_more_nulls(file_field, field)
        return ColumnMapping(
            field, field_id, file_field, read_positions[position], direct_type, may_have_nulls=may_have_nulls
        )


def _find_unsafe_dictionaries(arrow_schema: pa.Schema) -> list[int]:
    types = (data_type for field in arrow_schema for data_type in list_leaf_types(field.type))
    own_nulls = (has_own for field in arrow_schema for has_own in iter_own_nulls(field))
    return [
        leaf
        for leaf, (data_type, has_own) in enumerate(zip(types, own_nulls, strict=True))
        if pa.types.is_dictionary(data_type) and not has_own
    ]


class FileProjectionCache:
    """Keeps the last projection: most files of a table have the same schema."""

    def __init__(self, name_mapping: NameMapping | None, columns: Sequence[Json]) -> None:
        """`columns` are the columns of the table's schema that are read."""
        self._name_mapping = name_mapping
        self._columns = columns
        self._last: FileProjection | None = None
        self.schemas = FileSchemaCache()

    def get(
        self, file_schema: FileSchema, arrow_schema: pa.Schema, constants: frozenset[int] = frozenset()
    ) -> FileProjection:
        last = self._last
        if (
            last is None
            or last.file_schema is not file_schema
            or last.constants != constants
            or not last.arrow_schema.equals(arrow_schema, check_metadata=True)
        ):
            last = FileProjection(file_schema, arrow_schema, constants, self._name_mapping, self._columns)
            # The local variable is returned because another thread may replace the attribute for another file.
            self._last = last
        return last
