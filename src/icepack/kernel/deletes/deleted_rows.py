"""Which rows of the inputs are deleted: by position, by vector, by equality."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icepack.kernel.arrow_schema import Uncovered
from icepack.kernel.deletes.deletion_vectors import Positions, deleted_positions
from icepack.kernel.file_coverage import check_position_deletes
from icepack.kernel.input_file import OpenFile
from icepack.kernel.parquet.footer import KnownSchemas
from icepack.kernel.storage import Storage
from icepack.kernel.task import DeleteFile, Input, Task

PATH, POSITION = "file_path", "pos"
_NOTHING = np.empty(0, np.int64)
_NOBODY = np.empty(0, np.int32)


class PositionDeletes:
    """The positions of every input of a task, each delete file read once and only for these inputs."""

    def __init__(self, task: Task, storage: Storage) -> None:
        self._storage = storage
        self._schemas = KnownSchemas()
        self._inputs = task.inputs
        self._read = self._read_files(task)
        self._vectors: dict[tuple[str, int, int], Positions] = {}

    def of(self, item: Input) -> Positions:
        """Sorted, counted from the beginning of the file."""
        if item.vector is None:
            return self._read.get(item.path, _NOTHING)
        found = self._vectors.get(item.vector)
        if found is None:
            found = deleted_positions(self._storage.read(*item.vector))
            self._vectors = {item.vector: found}
        return found

    def _read_files(self, task: Task) -> dict[str, Positions]:
        wanted: dict[int, list[str]] = defaultdict(list)
        for item in task.inputs:
            for number in item.position_deletes:
                wanted[number].append(item.path)
        found: dict[str, list[Positions]] = defaultdict(list)
        for number, paths in wanted.items():
            for path, positions in self._read_one(task.position_deletes[number], paths):
                found[path].append(positions)
        return {path: np.unique(np.concatenate(parts)) for path, parts in found.items()}

    def _read_one(self, file: DeleteFile, paths: Sequence[str]) -> Iterable[tuple[str, Positions]]:
        names = pa.array(sorted(set(paths)), pa.string())
        opened = OpenFile(file, self._storage, self._schemas, [PATH])
        check_position_deletes(opened.schema, PATH, POSITION)
        numbers = sorted(map(opened.schema.paths.index, (PATH, POSITION)))
        for group in range(opened.file.num_row_groups):
            rows = opened.read(group, numbers)
            if rows[PATH].null_count or rows[POSITION].null_count:
                raise Uncovered("position deletes that are null")
            owners = np.concatenate([_NOBODY, *(_owners(chunk, names) for chunk in rows[PATH].chunks)])
            positions = rows[POSITION].to_numpy()
            for owner in np.unique(owners[owners >= 0]):
                yield names[int(owner)].as_py(), positions[owners == owner]


def _owners(paths: pa.Array, names: pa.Array) -> np.ndarray:
    """For each path its place among the names; -1 for all others. Looked up once for each entry of a dictionary."""
    if pa.types.is_dictionary(paths.type):
        places: np.ndarray = _owners(paths.dictionary, names)[paths.indices.to_numpy()]
        return places
    return np.asarray(pc.index_in(paths.cast(pa.string()), value_set=names).fill_null(-1).to_numpy())


def is_kept(positions: Positions, start: int, stop: int) -> np.ndarray | None:
    """A mask over the rows from `start` to `stop`; None when all of them stay."""
    first, last = np.searchsorted(positions, [start, stop])
    if first == last:
        return None
    mask = np.ones(stop - start, np.bool_)
    mask[positions[first:last] - start] = False
    return mask


class EqualityDeletes:
    """Deleted keys of one set of columns, each with the newest sequence number that deletes it.

    A key deletes the rows of files with an older number. Null is a value like any other: it deletes null.
    """

    def __init__(self, ids: Sequence[int], keys: Sequence[pa.ChunkedArray], sequence_numbers: np.ndarray) -> None:
        self.ids = tuple(ids)
        self._levels: list[tuple[pa.Array, pa.Array | None]] = []
        codes: np.ndarray | None = None
        for key in keys:
            values = _comparable(key).unique()
            own = _codes(key, values)
            if codes is None:
                codes, pairs = own, None
            else:
                combined = codes * len(values) + own
                unique, codes = np.unique(combined, return_inverse=True)
                pairs = pa.array(unique)
            self._levels.append((values, pairs))
        assert codes is not None
        self._newest = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.int64)
        np.maximum.at(self._newest, codes, sequence_numbers)

    @property
    def newest(self) -> int:
        """The newest sequence number among all keys; files that are not older have nothing to fear."""
        return int(self._newest.max(initial=0))

    def keeps(self, columns: Sequence[pa.ChunkedArray], sequence_number: int) -> np.ndarray:
        codes = np.zeros(0, np.int64)
        for position, (column, (values, pairs)) in enumerate(zip(columns, self._levels, strict=True)):
            own = _codes(column, values)
            if position == 0:
                codes = own
                continue
            assert pairs is not None
            known = (codes >= 0) & (own >= 0)
            combined = np.where(known, codes * len(values) + own, -1)
            codes = _codes(pa.chunked_array([pa.array(combined)]), pairs)
        # The last place stands for keys that nothing deletes.
        newest = np.append(self._newest, 0)
        kept: np.ndarray = newest[codes] <= sequence_number
        return kept


def _codes(column: pa.ChunkedArray, values: pa.Array) -> np.ndarray:
    """Each value's position among `values`; -1 for those that are not there."""
    found = pc.index_in(_comparable(column), value_set=values, skip_nulls=False)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if isinstance(column.type, pa.BaseExtensionType):
        return column.cast(column.type.storage_type)
    return column
