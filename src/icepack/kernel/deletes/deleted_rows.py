"""Finds the deleted rows of the inputs: by position, deletion vector and equality deletes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import UnsupportedByKernel
from icepack.kernel.deletes.deletion_vectors import Positions, read_deletion_vector
from icepack.kernel.input_file import OpenParquetFile
from icepack.kernel.parquet.footer import FileSchemaCache
from icepack.kernel.storage import Storage
from icepack.kernel.supported_files import check_position_deletes
from icepack.kernel.task import DeleteFile, InputFile, Task

# Columns of position delete files.
PATH_COLUMN, POSITION_COLUMN = "file_path", "pos"
_NO_POSITIONS = np.empty(0, np.int64)
_NO_INDEXES = np.empty(0, np.int32)


class PositionDeletes:
    """The deleted positions of a task's inputs. Each delete file is read once, and only for these inputs."""

    def __init__(self, task: Task, storage: Storage) -> None:
        self._storage = storage
        self._schemas = FileSchemaCache()
        self._by_path = self._read_files(task)
        self._vectors: dict[tuple[str, int, int], Positions] = {}

    def get_positions(self, file: InputFile) -> Positions:
        """Returns sorted positions that count from the start of the file."""
        if file.deletion_vector is None:
            return self._by_path.get(file.path, _NO_POSITIONS)
        positions = self._vectors.get(file.deletion_vector)
        if positions is None:
            positions = read_deletion_vector(self._storage.read(*file.deletion_vector))
            self._vectors = {file.deletion_vector: positions}
        return positions

    def _read_files(self, task: Task) -> dict[str, Positions]:
        paths_by_file: dict[int, list[str]] = defaultdict(list)
        for file in task.inputs:
            for number in file.position_deletes:
                paths_by_file[number].append(file.path)
        parts_by_path: dict[str, list[Positions]] = defaultdict(list)
        for number, paths in paths_by_file.items():
            for path, positions in self._read_file(task.position_deletes[number], paths):
                parts_by_path[path].append(positions)
        return {path: np.unique(np.concatenate(parts)) for path, parts in parts_by_path.items()}

    def _read_file(self, file: DeleteFile, paths: Sequence[str]) -> Iterable[tuple[str, Positions]]:
        wanted = pa.array(sorted(set(paths)), pa.string())
        opened = OpenParquetFile(file, self._storage, self._schemas, [PATH_COLUMN])
        check_position_deletes(opened.schema, PATH_COLUMN, POSITION_COLUMN)
        leaves = sorted(map(opened.schema.paths.index, (PATH_COLUMN, POSITION_COLUMN)))
        for row_group in range(opened.parquet_file.num_row_groups):
            rows = opened.read_row_group(row_group, leaves)
            if rows[PATH_COLUMN].null_count or rows[POSITION_COLUMN].null_count:
                raise UnsupportedByKernel("position deletes that are null")
            chunks = rows[PATH_COLUMN].chunks
            path_indexes = np.concatenate([_NO_INDEXES, *(_find_paths(chunk, wanted) for chunk in chunks)])
            positions = rows[POSITION_COLUMN].to_numpy()
            for index in np.unique(path_indexes[path_indexes >= 0]):
                yield wanted[int(index)].as_py(), positions[path_indexes == index]


def _find_paths(paths: pa.Array, wanted: pa.Array) -> np.ndarray:
    """Returns the index of each path among the wanted ones, -1 for all others.

    In a dictionary each entry is looked up once.
    """
    if pa.types.is_dictionary(paths.type):
        indexes: np.ndarray = _find_paths(paths.dictionary, wanted)[paths.indices.to_numpy()]
        return indexes
    return np.asarray(pc.index_in(paths.cast(pa.string()), value_set=wanted).fill_null(-1).to_numpy())


def build_position_mask(positions: Positions, start: int, stop: int) -> np.ndarray | None:
    """Returns a mask of the live rows from `start` to `stop`; None if all of them are live."""
    first, last = np.searchsorted(positions, [start, stop])
    if first == last:
        return None
    mask = np.ones(stop - start, np.bool_)
    mask[positions[first:last] - start] = False
    return mask


class EqualityDeletes:
    """Deleted keys of one set of columns, each with the highest sequence number that deletes it.

    A key deletes rows of files with a lower sequence number. Null is a value like any other: it deletes null.
    Keys of several columns are encoded column by column: the code so far and the next value get a new code together.
    """

    def __init__(self, field_ids: Sequence[int], keys: Sequence[pa.ChunkedArray], sequence_numbers: np.ndarray) -> None:
        self.field_ids = tuple(field_ids)
        self._levels: list[tuple[pa.Array, pa.Array | None]] = []
        codes: np.ndarray | None = None
        for key in keys:
            values = _to_comparable(key).unique()
            value_codes = _encode(key, values)
            if codes is None:
                codes, pairs = value_codes, None
            else:
                combined = codes * len(values) + value_codes
                unique, codes = np.unique(combined, return_inverse=True)
                pairs = pa.array(unique)
            self._levels.append((values, pairs))
        assert codes is not None
        self._sequence_numbers = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.int64)
        np.maximum.at(self._sequence_numbers, codes, sequence_numbers)

    @property
    def max_sequence_number(self) -> int:
        """The highest sequence number among all keys; files that are not older are not affected."""
        return int(self._sequence_numbers.max(initial=0))

    def build_mask(self, columns: Sequence[pa.ChunkedArray], sequence_number: int) -> np.ndarray:
        """Returns a mask of the live rows of a file with this sequence number."""
        codes = np.zeros(0, np.int64)
        for position, (column, (values, pairs)) in enumerate(zip(columns, self._levels, strict=True)):
            value_codes = _encode(column, values)
            if position == 0:
                codes = value_codes
                continue
            assert pairs is not None
            is_known = (codes >= 0) & (value_codes >= 0)
            combined = np.where(is_known, codes * len(values) + value_codes, -1)
            codes = _encode(pa.chunked_array([pa.array(combined)]), pairs)
        # Code -1 selects the last entry, which stands for keys that are not deleted.
        sequence_numbers = np.append(self._sequence_numbers, 0)
        is_live: np.ndarray = sequence_numbers[codes] <= sequence_number
        return is_live


def _encode(column: pa.ChunkedArray, values: pa.Array) -> np.ndarray:
    """Returns each value's position among `values`, -1 for those that are not there."""
    indexes = pc.index_in(_to_comparable(column), value_set=values, skip_nulls=False)
    return np.asarray(pc.fill_null(indexes, -1).to_numpy(), np.int64)


def _to_comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if isinstance(column.type, pa.BaseExtensionType):
        return column.cast(column.type.storage_type)
    return column
