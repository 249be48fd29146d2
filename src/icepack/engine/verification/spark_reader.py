"""Digests of files, read by Iceberg's own reader on Spark with the deletes that apply to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from icepack.domain.verification import ColumnDifference
from icepack.engine.java.classes import new_instance
from icepack.engine.sql import identifier
from icepack.engine.verification.batch_reader import BatchMeasures, BatchReader, can_measure, digest_of
from icepack.engine.verification.bounds import FileMetrics, rows_outside, wrong_metrics
from icepack.engine.verification.digest import WHOLE_ROWS, ColumnDigest, Digest
from icepack.engine.verification.expressions import Leaf, leaves, row_hash, value_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# More columns in one query make a generated class too large to be compiled well.
COLUMNS_AT_ONCE = 32
# Values in a columnar batch, all columns together. Iceberg's own 5,000 rows spend much time on setting up batches.
BATCH_VALUES = 2**18
FEWEST_BATCH_ROWS = 1_000
MOST_BATCH_ROWS = 20_000
# Outputs whose aggregates are computed by one query.
FILES_AT_ONCE = 8
_MASK = 2**64 - 1
# No column of a table is called that.
_HASH = "__icepack_hash_"

T = TypeVar("T")

_sessions: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """The digest of one output, and where the manifest's metrics disagree with its rows."""

    digest: Digest
    wrong_metrics: tuple[ColumnDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Some top-level columns of a table, by name with their Iceberg types, that one query reads."""

    types: Mapping[str, Any]
    leaves: Sequence[Leaf]

    @property
    def label(self) -> str:
        """What the hashes of these columns together are called; without a name where they are all columns."""
        return WHOLE_ROWS if len(self.types) < COLUMNS_AT_ONCE else f"{WHOLE_ROWS} from {next(iter(self.types))}"


@dataclass(slots=True)
class Aggregates:
    """Aggregate expressions of one query, in the order in which their results come back."""

    texts: list[str] = field(default_factory=list)

    def add(self, text: str) -> int:
        self.texts.append(f"{text} AS a{len(self.texts)}")
        return len(self.texts) - 1


class SparkReader:
    """Reads the files of one table; `types` says which columns are compared, lineage columns included."""

    def __init__(self, spark: SparkSession, table: Any, schema: Mapping[str, Any], lineage: Sequence[str] = ()) -> None:
        self._spark = comparison_session(spark)
        self._table = table
        types = {part["name"]: part["type"] for part in schema["fields"]} | dict.fromkeys(lineage, "long")
        found = leaves(schema)
        self._batch_rows = max(FEWEST_BATCH_ROWS, min(MOST_BATCH_ROWS, BATCH_VALUES // len(types)))
        self._batches = BatchReader(self._spark, types, found, COLUMNS_AT_ONCE) if can_measure(types) else None
        self._parts = [
            Columns({name: types[name] for name in names}, [leaf for leaf in found if leaf.path[0] in names])
            for names in _batches(types, COLUMNS_AT_ONCE)
        ]

    def digest(self, tasks: Any) -> Digest:
        """Of all files of these scan tasks together."""
        found = Digest()
        with self._staged(tasks) as frame:
            if (measured := self._measured([frame], [None])) is not None:
                return self._batch_digest(measured[0])
            for part in self._parts:
                query = _Query(part)
                (row,) = query.on(frame).collect()
                found = _joined(found, query.digest(row))
        return found

    def digests(self, tasks: Sequence[Any], metrics: Sequence[FileMetrics]) -> list[FileDigest]:
        """Of each file by itself, beside what its manifest entry says."""
        return [
            digest
            for pairs in _batches(zip(tasks, metrics, strict=True), FILES_AT_ONCE)
            for digest in self._file_digests(*zip(*pairs, strict=True))
        ]

    def _measured(
        self, frames: Sequence[DataFrame], metrics: Sequence[FileMetrics | None]
    ) -> list[BatchMeasures] | None:
        return None if self._batches is None else self._batches.measure(frames, metrics)

    def _batch_digest(self, measures: BatchMeasures) -> Digest:
        names = [name for part in self._parts for name in part.types]
        floating = [leaf.name for part in self._parts for leaf in part.leaves if leaf.is_floating]
        return digest_of(measures, names, [part.label for part in self._parts], floating)

    def _file_digests(self, tasks: Sequence[Any], metrics: Sequence[FileMetrics]) -> Iterable[FileDigest]:
        with ExitStack() as stack:
            frames = [stack.enter_context(self._staged([task])) for task in tasks]
            if (measured := self._measured(frames, metrics)) is not None:
                paths = [str(task.file().location()) for task in tasks]
                return [self._batch_file(*each) for each in zip(measured, metrics, paths, strict=True)]
        return self._queried_file_digests(tasks, metrics)

    def _batch_file(self, measures: BatchMeasures, metrics: FileMetrics, path: str) -> FileDigest:
        found = dict(zip((name for part in self._parts for name in part.types), measures.columns, strict=True))
        columns = [(leaf, found[leaf.name]) for part in self._parts for leaf in part.leaves]
        wrong = wrong_metrics(
            metrics,
            path,
            rows=measures.rows,
            nulls={leaf: column.nulls for leaf, column in columns},
            nans={leaf: column.nans for leaf, column in columns if leaf.is_floating},
            outside={leaf: column.outside_bounds for leaf, column in columns},
        )
        return FileDigest(digest=self._batch_digest(measures), wrong_metrics=tuple(wrong))

    def _queried_file_digests(self, tasks: Sequence[Any], metrics: Sequence[FileMetrics]) -> list[FileDigest]:
        found = [FileDigest(digest=Digest()) for _ in tasks]
        for part in self._parts:
            queries = [_Query(part, file) for file in metrics]
            rows = self._rows_of(tasks, queries)
            for number, (query, row) in enumerate(zip(queries, rows, strict=True)):
                before = found[number]
                found[number] = FileDigest(
                    digest=_joined(before.digest, query.digest(row)),
                    wrong_metrics=(*before.wrong_metrics, *query.wrong_metrics(row, tasks[number].file().location())),
                )
        return found

    def _rows_of(self, tasks: Sequence[Any], queries: Sequence[_Query]) -> list[Any]:
        with ExitStack() as stack:
            frames = [
                query.on(stack.enter_context(self._staged([task]))).selectExpr(f"{number} AS number", "*")
                for number, (task, query) in enumerate(zip(tasks, queries, strict=True))
            ]
            rows = reduce(lambda one, other: one.unionAll(other), frames).collect()
        return [row[1:] for row in sorted(rows, key=lambda row: row[0])]

    @contextmanager
    def _staged(self, tasks: Any) -> Iterator[DataFrame]:
        """A data frame over exactly these scan tasks, by the way that Iceberg's own rewrite reads its groups."""
        name = f"icepack-{uuid4()}"
        listed = self._spark.sparkContext._jvm.java.util.ArrayList()
        for task in tasks:
            listed.add(task)
        staged = new_instance(self._spark, __package__, "StagedTasks", self._table, name, listed)
        try:
            yield self._spark.read.format("iceberg").option("batch-size", self._batch_rows).load(name)
        finally:
            staged.remove()


class _Query:
    """Aggregates over some columns: hashes and nulls of each, of whole rows, and for a file what its metrics claim."""

    def __init__(self, columns: Columns, metrics: FileMetrics | None = None) -> None:
        self._columns = columns
        self._metrics = metrics
        self._aggregates = Aggregates()
        add = self._aggregates.add
        self._rows = add("count(1)")
        self._hashed = {
            name: (add(f"count({identifier(name)})"), add(f"sum({_HASH}{at})"), add(f"sum({_HASH}{at} * {_HASH}{at})"))
            for at, name in enumerate(columns.types)
        }
        whole = row_hash([f"{_HASH}{at}" for at in range(len(columns.types))])
        self._whole = (add(f"sum({whole})"), add(f"sum({whole} * {whole})"))
        self._nans = {leaf: add(f"count_if(isnan({leaf.sql}))") for leaf in columns.leaves if leaf.is_floating}
        self._nulls: dict[Leaf, int] = {}
        self._outside: dict[Leaf, int] = {}
        if metrics is not None:
            self._add_metrics(metrics)

    def _add_metrics(self, metrics: FileMetrics) -> None:
        """The same aggregates for every file, whatever its metrics have: queries of several files are put together."""
        for leaf in self._columns.leaves:
            self._nulls[leaf] = self._aggregates.add(f"count_if(isnull({leaf.sql}))")
            self._outside[leaf] = self._aggregates.add(f"count_if({rows_outside(leaf, metrics) or 'false'})")

    def on(self, frame: DataFrame) -> DataFrame:
        names = [identifier(name) for name in self._columns.types]
        kinds = self._columns.types.values()
        hashes = [
            f"{value_hash(name, kind)} AS {_HASH}{at}" for at, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]
        return frame.selectExpr(*names, *hashes).selectExpr(*self._aggregates.texts)

    def digest(self, row: Any) -> Digest:
        rows = row[self._rows]
        columns = {
            name: ColumnDigest(hash_1=_unsigned(row[one]), hash_2=_unsigned(row[two]), nulls=rows - row[count])
            for name, (count, one, two) in self._hashed.items()
        }
        first, second = self._whole
        whole = ColumnDigest(hash_1=_unsigned(row[first]), hash_2=_unsigned(row[second]))
        nans = {leaf.name: row[position] or 0 for leaf, position in self._nans.items()}
        return Digest(rows=rows, columns={**columns, self._columns.label: whole}, nans=nans)

    def wrong_metrics(self, row: Any, path: str) -> list[ColumnDifference]:
        """Claims of the manifest that the rows do not bear out."""
        assert self._metrics is not None
        return wrong_metrics(
            self._metrics,
            path,
            rows=row[self._rows],
            nulls={leaf: row[position] or 0 for leaf, position in self._nulls.items()},
            nans={leaf: row[position] or 0 for leaf, position in self._nans.items()},
            outside={leaf: row[position] or 0 for leaf, position in self._outside.items()},
        )


def comparison_session(spark: SparkSession) -> SparkSession:
    """A session of the same application whose sums wrap around, as sums of hashes must, and whose clock is UTC."""
    if spark not in _sessions:
        session = spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", "false")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.caseSensitive", "true")
        _sessions[spark] = session
    return _sessions[spark]


def _joined(one: Digest, other: Digest) -> Digest:
    """Digests of different columns of the same rows."""
    return Digest(rows=other.rows, columns={**one.columns, **other.columns}, nans={**one.nans, **other.nans})


def _unsigned(value: int | None) -> int:
    """A sum over no rows is null."""
    return (value or 0) & _MASK


def _batches(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    each = iter(items)
    while batch := tuple(islice(each, size)):
        yield batch
