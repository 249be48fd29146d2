"""The check of a native rewrite before its commit: inputs with their deletes beside outputs, value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from icepack.domain.verification import ColumnDifference
from icepack.engine.native.coverage import TableFacts
from icepack.engine.native.jvm import JavaRewrite
from icepack.engine.verification.bounds import FileMetrics, metrics_from_json
from icepack.engine.verification.digest import Digest, differences, total
from icepack.engine.verification.expressions import is_readable_by_spark
from icepack.engine.verification.generic_reader import GenericReader
from icepack.engine.verification.spark_reader import FileDigest, SparkReader
from icepack.kernel.arrow_schema import LINEAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEAGE_COLUMNS = tuple(str(column["name"]) for column in LINEAGE)


class DigestReader(Protocol):
    """Reads files as Iceberg does and digests their rows."""

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


def digest_reader(spark: SparkSession, table: Any, schema: Mapping[str, Any], *, with_lineage: bool) -> DigestReader:
    """Iceberg's reader on Spark, or the generic one where a column has a type that Spark does not know."""
    if is_readable_by_spark({"type": "struct", **schema}):
        return SparkReader(spark, table, schema, LINEAGE_COLUMNS if with_lineage else ())
    return GenericReader(spark, table, with_lineage=with_lineage)


class RewriteCheck:
    """Compares groups of one rewrite."""

    def __init__(self, spark: SparkSession, table: Any, facts: TableFacts, rewrite: JavaRewrite) -> None:
        self._spark = spark
        self._table = table
        self._facts = facts
        self._rewrite = rewrite

    @property
    def snapshot_id(self) -> int:
        return self._rewrite.snapshot_id

    def compare(self, paths: Sequence[str], added: Sequence[Mapping[str, Any]]) -> RewriteComparison:
        """The inputs at `paths` beside the outputs of a commit request."""
        reader = digest_reader(self._spark, self._table, self._facts.schema, with_lineage=self._has_lineage(paths))
        before = reader.digest(self._rewrite.input_tasks(paths))
        made = self._outputs(reader, added)
        after = total(file.digest for file in made)
        wrong = [difference for file in made for difference in file.wrong_metrics]
        return RewriteComparison(
            rows_before=before.rows, rows_after=after.rows, differences=(*differences(before, after), *wrong)
        )

    def _outputs(self, reader: DigestReader, added: Sequence[Mapping[str, Any]]) -> list[FileDigest]:
        if not added:
            return []
        tasks = self._rewrite.output_tasks(added)
        said = self._rewrite.output_metrics(added)
        return reader.digests(tasks, [metrics_from_json(said[file["path"]]) for file in added])

    def _has_lineage(self, paths: Sequence[str]) -> bool:
        """Rows of files from before version 3 have no identity yet: they get one with the commit."""
        files = self._rewrite.files
        return self._facts.format_version >= 3 and all(files[path].first_row_id is not None for path in paths)
