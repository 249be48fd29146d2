"""Digests files with Iceberg's reader on Spark, which applies their deletes."""

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
from icepack.engine.sql import quote_identifier
from icepack.engine.verification.batch_reader import BatchMeasures, BatchReader, build_digest, supports_types
from icepack.engine.verification.bounds import FileMetrics, build_outside_condition, find_wrong_metrics
from icepack.engine.verification.digest import WHOLE_ROWS, ColumnDigest, Digest
from icepack.engine.verification.expressions import LeafColumn, build_row_hash, build_value_hash, find_leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# With more columns in one query, the generated class is too large to be compiled well.
MAX_COLUMNS_PER_QUERY = 32
# The number of values in a columnar batch, and limits for its rows. With Iceberg's default of 5,000 rows, setting up
# batches takes much of the time.
BATCH_VALUES = 2**17
MIN_BATCH_ROWS = 1_000
MAX_BATCH_ROWS = 20_000
# The number of outputs whose aggregates are computed by one query.
MAX_FILES_PER_QUERY = 8
_MASK = 2**64 - 1
# The prefix of the columns with hashes; no column of a table has such a name.
_HASH = "__icepack_hash_"

T = TypeVar("T")

_sessions: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """The digest of one output, and the metrics in the manifest that differ from its rows."""

    digest: Digest
    wrong_metrics: tuple[ColumnDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """Top-level columns that one query reads, with their Iceberg types by name."""

    types: Mapping[str, Any]
    leaves: Sequence[LeafColumn]

    @property
    def label(self) -> str:
        """The name of the row hashes of this group; it includes the first column if there are several groups."""
        return WHOLE_ROWS if len(self.types) < MAX_COLUMNS_PER_QUERY else f"{WHOLE_ROWS} from {next(iter(self.types))}"


@dataclass(slots=True)
class AggregateList:
    """The aggregate expressions of one query, in the order of their results."""

    expressions: list[str] = field(default_factory=list)

    def add(self, text: str) -> int:
        self.expressions.append(f"{text} AS a{len(self.expressions)}")
        return len(self.expressions) - 1


class SparkReader:
    """Digests the files of one table; `lineage` are the row lineage columns that are compared as well."""

    def __init__(self, spark: SparkSession, table: Any, schema: Mapping[str, Any], lineage: Sequence[str] = ()) -> None:
        self._spark = get_comparison_session(spark)
        self._table = table
        types = {field["name"]: field["type"] for field in schema["fields"]} | dict.fromkeys(lineage, "long")
        leaf_columns = find_leaves(schema)
        self._batch_rows = max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, BATCH_VALUES // len(types)))
        self._batches = (
            BatchReader(self._spark, types, leaf_columns, MAX_COLUMNS_PER_QUERY) if supports_types(types) else None
        )
        self._groups = [
            ColumnGroup({name: types[name] for name in names}, [leaf for leaf in leaf_columns if leaf.path[0] in names])
            for names in _split_into_batches(types, MAX_COLUMNS_PER_QUERY)
        ]

    def digest(self, tasks: Any) -> Digest:
        """Digests all files of these scan tasks together."""
        found = Digest()
        with self._stage(tasks) as frame:
            if (measured := self._measure([frame], [None])) is not None:
                return self._batch_digest(measured[0])
            for group in self._groups:
                query = _DigestQuery(group)
                (row,) = query.apply(frame).collect()
                found = _merge_columns(found, query.digest(row))
        return found

    def digests(self, tasks: Sequence[Any], metrics: Sequence[FileMetrics]) -> list[FileDigest]:
        """Digests each file separately, and compares it with the metrics of its manifest entry."""
        return [
            digest
            for pairs in _split_into_batches(zip(tasks, metrics, strict=True), MAX_FILES_PER_QUERY)
            for digest in self._file_digests(*zip(*pairs, strict=True))
        ]

    def _measure(
        self, frames: Sequence[DataFrame], metrics: Sequence[FileMetrics | None]
    ) -> list[BatchMeasures] | None:
        return None if self._batches is None else self._batches.measure(frames, metrics)

    def _batch_digest(self, measures: BatchMeasures) -> Digest:
        names = [name for group in self._groups for name in group.types]
        floating = [leaf.name for group in self._groups for leaf in group.leaves if leaf.is_floating]
        return build_digest(measures, names, [group.label for group in self._groups], floating)

    def _file_digests(self, tasks: Sequence[Any], metrics: Sequence[FileMetrics]) -> Iterable[FileDigest]:
        with ExitStack() as stack:
            frames = [stack.enter_context(self._stage([task])) for task in tasks]
            if (measured := self._measure(frames, metrics)) is not None:
                paths = [str(task.file().location()) for task in tasks]
                return [self._batch_file_digest(*item) for item in zip(measured, metrics, paths, strict=True)]
        return self._queried_file_digests(tasks, metrics)

    def _batch_file_digest(self, measures: BatchMeasures, metrics: FileMetrics, path: str) -> FileDigest:
        found = dict(zip((name for group in self._groups for name in group.types), measures.columns, strict=True))
        columns = [(leaf, found[leaf.name]) for group in self._groups for leaf in group.leaves]
        wrong = find_wrong_metrics(
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
        for group in self._groups:
            queries = [_DigestQuery(group, file_metrics) for file_metrics in metrics]
            rows = self._run_queries(tasks, queries)
            for number, (query, row) in enumerate(zip(queries, rows, strict=True)):
                before = found[number]
                found[number] = FileDigest(
                    digest=_merge_columns(before.digest, query.digest(row)),
                    wrong_metrics=(
                        *before.wrong_metrics,
                        *query.find_wrong_metrics(row, tasks[number].file().location()),
                    ),
                )
        return found

    def _run_queries(self, tasks: Sequence[Any], queries: Sequence[_DigestQuery]) -> list[Any]:
        with ExitStack() as stack:
            frames = [
                query.apply(stack.enter_context(self._stage([task]))).selectExpr(f"{number} AS number", "*")
                for number, (task, query) in enumerate(zip(tasks, queries, strict=True))
            ]
            rows = reduce(lambda one, other: one.unionAll(other), frames).collect()
        return [row[1:] for row in sorted(rows, key=lambda row: row[0])]

    @contextmanager
    def _stage(self, tasks: Any) -> Iterator[DataFrame]:
        """Creates a data frame over exactly these scan tasks, as Iceberg's own rewrite reads its file groups."""
        name = f"icepack-{uuid4()}"
        task_list = self._spark.sparkContext._jvm.java.util.ArrayList()
        for task in tasks:
            task_list.add(task)
        staged = new_instance(self._spark, __package__, "StagedTasks", self._table, name, task_list)
        try:
            yield self._spark.read.format("iceberg").option("batch-size", self._batch_rows).load(name)
        finally:
            staged.remove()


class _DigestQuery:
    """The aggregates of a group of columns: hashes and nulls, and for a file the values of its metrics."""

    def __init__(self, columns: ColumnGroup, metrics: FileMetrics | None = None) -> None:
        self._columns = columns
        self._metrics = metrics
        self._aggregates = AggregateList()
        add = self._aggregates.add
        self._rows = add("count(1)")
        self._hashed = {
            name: (
                add(f"count({quote_identifier(name)})"),
                add(f"sum({_HASH}{index})"),
                add(f"sum({_HASH}{index} * {_HASH}{index})"),
            )
            for index, name in enumerate(columns.types)
        }
        row_hash = build_row_hash([f"{_HASH}{index}" for index in range(len(columns.types))])
        self._row_hashes = (add(f"sum({row_hash})"), add(f"sum({row_hash} * {row_hash})"))
        self._nans = {leaf: add(f"count_if(isnan({leaf.sql}))") for leaf in columns.leaves if leaf.is_floating}
        self._nulls: dict[LeafColumn, int] = {}
        self._outside: dict[LeafColumn, int] = {}
        if metrics is not None:
            self._add_metrics(metrics)

    def _add_metrics(self, metrics: FileMetrics) -> None:
        """Adds the same aggregates for every file, because the queries of several files are combined."""
        for leaf in self._columns.leaves:
            self._nulls[leaf] = self._aggregates.add(f"count_if(isnull({leaf.sql}))")
            self._outside[leaf] = self._aggregates.add(f"count_if({build_outside_condition(leaf, metrics) or 'false'})")

    def apply(self, frame: DataFrame) -> DataFrame:
        names = [quote_identifier(name) for name in self._columns.types]
        kinds = self._columns.types.values()
        hashes = [
            f"{build_value_hash(name, kind)} AS {_HASH}{index}"
            for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]
        return frame.selectExpr(*names, *hashes).selectExpr(*self._aggregates.expressions)

    def digest(self, row: Any) -> Digest:
        rows = row[self._rows]
        columns = {
            name: ColumnDigest(hash_1=_to_unsigned(row[one]), hash_2=_to_unsigned(row[two]), nulls=rows - row[count])
            for name, (count, one, two) in self._hashed.items()
        }
        hash_1, hash_2 = self._row_hashes
        whole_rows = ColumnDigest(hash_1=_to_unsigned(row[hash_1]), hash_2=_to_unsigned(row[hash_2]))
        nans = {leaf.name: row[position] or 0 for leaf, position in self._nans.items()}
        return Digest(rows=rows, columns={**columns, self._columns.label: whole_rows}, nans=nans)

    def find_wrong_metrics(self, row: Any, path: str) -> list[ColumnDifference]:
        """Returns the metrics of the manifest that differ from the rows."""
        assert self._metrics is not None
        return find_wrong_metrics(
            self._metrics,
            path,
            rows=row[self._rows],
            nulls={leaf: row[position] or 0 for leaf, position in self._nulls.items()},
            nans={leaf: row[position] or 0 for leaf, position in self._nans.items()},
            outside={leaf: row[position] or 0 for leaf, position in self._outside.items()},
        )


def get_comparison_session(spark: SparkSession) -> SparkSession:
    """Returns a session whose sums wrap around, as sums of hashes must, and whose time zone is UTC."""
    if spark not in _sessions:
        session = spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", "false")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.caseSensitive", "true")
        _sessions[spark] = session
    return _sessions[spark]


def _merge_columns(one: Digest, other: Digest) -> Digest:
    """Merges digests of different columns of the same rows."""
    return Digest(rows=other.rows, columns={**one.columns, **other.columns}, nans={**one.nans, **other.nans})


def _to_unsigned(value: int | None) -> int:
    """Converts a sum, which is null if there are no rows."""
    return (value or 0) & _MASK


def _split_into_batches(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch
