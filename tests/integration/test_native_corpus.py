"""Imports Parquet files of other writers by name and by field id, compacts them natively, and compares the values."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from uuid import uuid4
from zlib import crc32

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from icepack.domain.actions import Compact
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.engine import sql

from .lake import Lake, commit_equality_delete
from .parquet_corpus import FAMILIES, ROWS, UNREADABLE_FAMILIES, Entry, Family, build_family_rows
from .parquet_field_ids import add_field_ids
from .random_types import JAVA_ONLY, UNREADABLE, to_java_type
from .readers import Rows, build_filters, normalize_rows, read_with_generic_reader, run_filters, run_filters_in_memory
from .run_report import RunReport

SOAK = bool(os.environ.get("ICEPACK_SOAK"))
SOAK_SECONDS = float(os.environ.get("ICEPACK_SOAK_SECONDS", "1800"))
# The maximum number of corpus entries in one table.
MAX_ENTRIES = 12
FILES_PER_ENTRY = 2
READ_ERRORS = (PySparkException, Py4JJavaError)
# The number of columns that are filtered by.
MAX_FILTERED_COLUMNS = 3


@dataclass(frozen=True)
class Case:
    """A table of the corpus; each entry is a partition, and therefore a separate file group."""

    family: Family
    entries: tuple[Entry, ...]
    by_name: bool
    version: int
    deletes: str
    seed: int

    @property
    def description(self) -> str:
        mapping = "by name" if self.by_name else "by field id"
        return f"{self.family.name} {mapping}, format {self.version}, deletes: {self.deletes}, seed {self.seed}"


def draw_case(family: Family, seed: int) -> Case:
    random = Random(seed)
    entries = random.sample(family.entries, min(MAX_ENTRIES, len(family.entries)))
    deletes = random.choice(("none", "position", "equality", "both")) if family.is_spark_readable else "equality"
    version = random.choice((2, 3)) if family.is_spark_readable else 3
    return Case(family, tuple(entries), random.random() < 0.5, version, deletes, seed)


@dataclass(frozen=True)
class TableRows:
    """The normalized rows of each partition, and an Arrow table if Spark can read the types."""

    parts: dict[str, Rows]
    arrow: pa.Table | None


def split_by_part(rows: pa.Table, parts: Iterable[str], **options: bool) -> dict[str, Rows]:
    indexes: dict[str, list[int]] = {part: [] for part in parts}
    for index, part in enumerate(rows["part"].to_pylist()):
        indexes[part].append(index)
    return {part: normalize_rows(rows.take(pa.array(taken, pa.int64())), **options) for part, taken in indexes.items()}


class ImportedTable:
    """The table of a case, with the files of all entries that could be written and read."""

    def __init__(self, lake: Lake, case: Case, report: RunReport) -> None:
        self.lake = lake
        self.case = case
        self.report = report
        self.table = self._create()
        self.entries: dict[str, Entry] = {}
        self._write_entries()

    def _create(self) -> TableId:
        """Uses the column order of the files, because Iceberg's generic reader maps columns without ids by position."""
        columns = self.case.family.columns
        by_sql = not any(column.type.name in (*JAVA_ONLY, *UNREADABLE) for column in columns)
        column_list = "".join(f", {column.name} {column.type.sql}" for column in columns) if by_sql else ""
        table = self.lake.create(
            f"id BIGINT, part STRING{column_list}", hint="corpus", partitioned_by="part", version=self.case.version
        )
        java = self.lake.java_table(table)
        update = java.updateSchema()
        for column in () if by_sql else columns:
            update = update.addColumn(column.name, to_java_type(self.lake, column.type))
        update.commit()
        java.refresh()
        mapping = self.lake.iceberg.mapping.MappingUtil.create(java.schema())
        mapping_json = self.lake.iceberg.mapping.NameMappingParser.toJson(mapping)
        java.updateProperties().set("schema.name-mapping.default", mapping_json).commit()
        if self.case.family.is_spark_readable:
            self.lake.sql(f"REFRESH TABLE {table}")
        return table

    def _write_entries(self) -> None:
        folder = self.lake.table_folder(self.table) / "imported"
        for number, entry in enumerate(self.case.entries):
            part = f"e{number:02d}"
            try:
                self._write(folder / f"part={part}", entry, part, number)
            except (pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
                self.report.skipped[f"{entry.name} cannot write {self.case.family.name}: {_root_cause(error)}"] += 1
                continue
            self.entries[part] = entry
        self._import(folder)

    def _write(self, folder: Path, entry: Entry, part: str, number: int) -> None:
        folder.mkdir(parents=True)
        for file in range(FILES_PER_ENTRY):
            first = (number * FILES_PER_ENTRY + file) * ROWS
            rows = build_family_rows(
                self.case.family, part, first, crc32(f"{self.case.seed}/{entry.name}/{file}".encode())
            )
            path = folder / f"{uuid4()}.parquet"
            try:
                entry.write(entry.change(rows), path)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def _import(self, folder: Path) -> None:
        if self.case.by_name and self.case.family.is_spark_readable:
            try:
                self._add_files(folder)
                return
            except (PySparkException, Py4JJavaError) as error:
                self.report.notes[f"add_files fails on {self.case.family.name}: {_root_cause(error)}"] += 1
        self._commit(folder)

    def _add_files(self, folder: Path) -> None:
        source = f"`parquet`.`file:{folder}`"
        self.lake.sql(f"CALL lake.system.add_files(table => '{self.table}', source_table => '{source}')").collect()

    def _commit(self, folder: Path) -> None:
        """Imports the files through Iceberg's Java API, with the metrics that it reads from the footers."""
        java = self.lake.java_table(self.table)
        iceberg = self.lake.iceberg
        mapping = iceberg.mapping.MappingUtil.create(java.schema())
        schema = json.loads(iceberg.SchemaParser.toJson(java.schema()))
        config = iceberg.MetricsConfig.forTable(java)
        append = java.newAppend()
        for path in sorted(folder.glob("*/*.parquet")):
            if not self.case.by_name:
                add_field_ids(path, schema)
            file = java.io().newInputFile(f"file:{path}")
            try:
                metrics = iceberg.parquet.ParquetUtil.fileMetrics(file, config, mapping)
            except Py4JJavaError as error:
                self._skip(path.parent.name.removeprefix("part="), "Iceberg cannot import it", error)
                continue
            builder = iceberg.DataFiles.builder(java.spec()).withInputFile(file).withMetrics(metrics)
            append.appendFile(builder.withPartitionPath(path.parent.name).withFormat("parquet").build())
        append.commit()

    def _skip(self, part: str, problem: str, error: Exception) -> None:
        if (entry := self.entries.pop(part, None)) is not None:
            self.report.skipped[f"{self.case.family.name}, {entry.name}: {problem}: {_root_cause(error)}"] += 1

    def disable_vectorization(self) -> None:
        """Iceberg's vectorized reader on Spark does not support all encodings that its row-based reader supports."""
        update = self.lake.java_table(self.table).updateProperties()
        update.set("read.parquet.vectorization.enabled", "false").commit()
        self.report.notes[f"{self.case.family.name}: read without vectorization"] += 1

    def drop_unreadable(self) -> None:
        """Removes the entries that Iceberg's own readers cannot read."""
        for part in list(self.entries):
            try:
                self.read(part)
            except READ_ERRORS as error:
                self._skip(part, "Iceberg cannot read it", error)
                expressions = self.lake.iceberg.expressions.Expressions
                self.lake.java_table(self.table).newDelete().deleteFromRowFilter(
                    expressions.equal("part", part)
                ).commit()

    def read(self, part: str = "") -> TableRows:
        """Reads with Iceberg's reader on Spark, or with its generic reader for types that Spark does not support."""
        family = self.case.family
        if not family.is_spark_readable:
            columns = ["id", "part", *(column.name for column in family.columns)]
            rows = read_with_generic_reader(self.lake, self.table, columns, part)
            return TableRows({part: [row for row in rows if f", {part}, " in row] for part in self.entries}, None)
        lineage = ", _row_id, _last_updated_sequence_number" if self.case.version >= 3 else ""
        where = f" WHERE part = '{part}'" if part else ""
        arrow = self.lake.sql(f"SELECT *{lineage} FROM {self.table}{where}").toArrow()
        return TableRows(split_by_part(arrow, self.entries), arrow)

    def delete(self) -> None:
        if self.case.deletes in ("equality", "both"):
            for number, part in enumerate(self.entries):
                if number % 2 == 0:
                    ids = [
                        (position,)
                        for position in range(number * FILES_PER_ENTRY * ROWS, (number + 1) * FILES_PER_ENTRY * ROWS, 5)
                    ]
                    commit_equality_delete(self.lake, self.table, ["id"], ids, partition=f"part={part}")
        if self.case.deletes in ("position", "both"):
            self.lake.sql(f"DELETE FROM {self.table} WHERE id % 7 = 3")


def _root_cause(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0] if lines else type(error).__name__)[:160]


def check(lake: Lake, case: Case, report: RunReport) -> None:
    """Compacts the table of a case, and adds the result to the report."""
    report.tables += 1
    imported = ImportedTable(lake, case, report)
    before = _prepare(imported)
    if not imported.entries:
        return
    filters = _build_filters(imported, before)
    expected = run_filters_in_memory(lake, before.arrow, filters) if filters else {}
    record = lake.run(imported.table, Compact(rewrite_all=True, delete_file_threshold=1))
    is_unsupported = not case.family.is_spark_readable and "Spark does not support" in record.message
    if record.state is not RunState.SUCCEEDED and not is_unsupported:
        _isolate(lake, case, report, f"{record.state}: {record.message}")
    elif problems := [
        *_proof_problems(record),
        *_row_problems(imported, before),
        *_filter_problems(lake, imported, expected),
    ]:
        report.mismatches += [f"{case.description}: {problem}" for problem in problems]
    elif is_unsupported:
        report.skipped[f"{case.family.name}: not rewritten, because Spark does not support it"] += 1
    else:
        report.add(record)
    if case.family.is_spark_readable:
        lake.sql(f"DROP TABLE {sql.table_name(imported.table)} PURGE")


def _build_filters(imported: ImportedTable, before: TableRows) -> list[str]:
    if before.arrow is None:
        return []
    return build_filters(imported.lake, imported.table, before.arrow, Random(imported.case.seed), MAX_FILTERED_COLUMNS)


def _isolate(lake: Lake, case: Case, report: RunReport, problem: str) -> None:
    """Finds the entry that makes a run fail, by running each half of the entries recursively."""
    count_before = len(report.mismatches)
    middle = len(case.entries) // 2
    for entries in (case.entries[:middle], case.entries[middle:]) if middle else ():
        check(lake, replace(case, entries=entries), report)
    if len(report.mismatches) == count_before:
        names = "; ".join(entry.name for entry in case.entries)
        report.mismatches.append(f"{case.description}: {names}: {problem}")


def _prepare(imported: ImportedTable) -> TableRows:
    try:
        imported.read()
    except READ_ERRORS:
        _make_readable(imported)
    imported.delete()
    return imported.read()


def _make_readable(imported: ImportedTable) -> None:
    if imported.case.family.is_spark_readable:
        imported.disable_vectorization()
    try:
        imported.read()
    except READ_ERRORS:
        imported.drop_unreadable()


def _proof_problems(record: RunRecord) -> Iterator[str]:
    """A mismatch found by the run itself: Spark has rewritten the files, but the kernel or the check is wrong."""
    if record.value_proof is not None and (mismatch := record.value_proof.mismatch) is not None:
        yield f"the run reports a mismatch in {mismatch.partition}: {mismatch.differences[:3]}"


def _row_problems(imported: ImportedTable, before: TableRows) -> Iterator[str]:
    after = imported.read()
    for part, rows in before.parts.items():
        if after.parts[part] != rows:
            yield f"{imported.entries[part].name}: rows differ: {_difference(rows, after.parts[part])}"
    found = imported.lake.catalogs.load(imported.table).scan().to_arrow()
    if after.arrow is not None:
        lineage = [name for name in after.arrow.column_names if name.startswith("_")]
        expected = split_by_part(after.arrow.drop_columns(lineage), imported.entries, is_empty_null=True)
        for part, rows in split_by_part(found, imported.entries, is_empty_null=True).items():
            if rows != expected[part]:
                yield f"{imported.entries[part].name}: PyIceberg differs: {_difference(expected[part], rows)}"


def _filter_problems(lake: Lake, imported: ImportedTable, expected: dict[str, Rows]) -> Iterator[str]:
    found = run_filters(lake, imported.table, list(expected))
    for text, ids in expected.items():
        if found[text] != ids:
            yield f"WHERE {text} finds {len(found[text])} rows, not {len(ids)}"


def _difference(before: Rows, after: Rows) -> str:
    missing, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    return f"{len(before)} → {len(after)} rows; {missing[:1]} → {new[:1]}"


def test_files_of_other_writers_keep_their_values(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport("corpus")
    with report.print_at_end(capsys):
        for number, family in enumerate(FAMILIES):
            check(lake, draw_case(family, number), report)
    assert not report.mismatches
    assert report.native_groups > report.spark_groups.total()


@pytest.mark.skipif(not SOAK, reason="make soak")
def test_soak(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport("corpus")
    ends_at = time.monotonic() + SOAK_SECONDS
    with report.print_at_end(capsys):
        families = (*FAMILIES, *UNREADABLE_FAMILIES)
        for number in count(Random().getrandbits(32)):
            check(lake, draw_case(families[number % len(families)], number), report)
            if time.monotonic() >= ends_at:
                break
    assert not report.mismatches
