"""Compares the inputs of a native rewrite, with their deletes applied, with its outputs before the commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from icepack.domain.verification import ColumnDifference
from icepack.engine.native.java_rewrite import JavaRewrite
from icepack.engine.native.table_facts import TableFacts
from icepack.engine.verification.bounds import FileMetrics, parse_metrics
from icepack.engine.verification.digest import Digest, find_differences, sum_digests
from icepack.engine.verification.expressions import is_readable_by_spark
from icepack.engine.verification.generic_reader import GenericReader
from icepack.engine.verification.spark_reader import FileDigest, SparkReader
from icepack.kernel.arrow_schema import LINEAGE_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEAGE_COLUMNS = tuple(str(column["name"]) for column in LINEAGE_FIELDS)


class DigestReader(Protocol):
    """Reads files with a reader of Iceberg, and digests their rows."""

    def digest(self, tasks: Any) -> Digest: ...

    def digests(self, tasks: Any, metrics: Sequence[FileMetrics]) -> list[FileDigest]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteComparison:
    rows_before: int
    rows_after: int
    differences: tuple[ColumnDifference, ...]

    @property
    def is_equal(self) -> bool:
        return not self.differences


def create_digest_reader(
    spark: SparkSession, table: Any, schema: Mapping[str, Any], *, with_lineage: bool
) -> DigestReader:
    """Returns Iceberg's reader on Spark, or its generic reader if Spark does not support the type of a column."""
    if is_readable_by_spark({"type": "struct", **schema}):
        return SparkReader(spark, table, schema, LINEAGE_COLUMNS if with_lineage else ())
    return GenericReader(spark, table, with_lineage=with_lineage)


class RewriteCheck:
    """Compares the groups of one rewrite."""

    def __init__(self, spark: SparkSession, table: Any, facts: TableFacts, rewrite: JavaRewrite) -> None:
        self._spark = spark
        self._table = table
        self._facts = facts
        self._rewrite = rewrite

    @property
    def snapshot_id(self) -> int:
        return self._rewrite.snapshot_id

    def compare(self, paths: Sequence[str], added: Sequence[Mapping[str, Any]]) -> RewriteComparison:
        """Compares the inputs at `paths` with the outputs in a commit request."""
        reader = create_digest_reader(
            self._spark, self._table, self._facts.schema, with_lineage=self._has_lineage(paths)
        )
        before = reader.digest(self._rewrite.input_tasks(paths))
        outputs = self._digest_outputs(reader, added)
        after = sum_digests(file.digest for file in outputs)
        wrong = [difference for file in outputs for difference in file.wrong_metrics]
        return RewriteComparison(
            rows_before=before.rows, rows_after=after.rows, differences=(*find_differences(before, after), *wrong)
        )

    def _digest_outputs(self, reader: DigestReader, added: Sequence[Mapping[str, Any]]) -> list[FileDigest]:
        if not added:
            return []
        tasks = self._rewrite.output_tasks(added)
        metrics = self._rewrite.output_metrics(added)
        return reader.digests(tasks, [parse_metrics(metrics[file["path"]]) for file in added])

    def _has_lineage(self, paths: Sequence[str]) -> bool:
        """Rows in files from before format version 3 have no row ids yet: they get them with the commit."""
        files = self._rewrite.files
        return self._facts.format_version >= 3 and all(files[path].first_row_id is not None for path in paths)
