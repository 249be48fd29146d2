"""Parquet files of other writers, imported by name and by field id, compacted natively, compared by value."""

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

from .lakes import Lake, equality_delete
from .parquet_corpus import FAMILIES, ROWS, UNREAD, Entry, Family, add_field_ids, rows_of
from .random_tables import JAVA_ONLY, UNREADABLE, java_type
from .readers import Rows, answers, exact_rows, expected_answers, generic_rows, predicates
from .tally import Tally

SOAK = bool(os.environ.get("ICEPACK_SOAK"))
SOAK_SECONDS = float(os.environ.get("ICEPACK_SOAK_SECONDS", "1800"))
SLICE = 12
"""Entries of each family in one table."""
FILES = 2
"""Of each entry."""
READ_ERRORS = (PySparkException, Py4JJavaError)
MOST_FILTERS = 3
"""Columns of a table that are filtered by."""


@dataclass(frozen=True)
class Case:
    """A table of the corpus; each entry is a partition, and so a group of its own."""

    family: Family
    entries: tuple[Entry, ...]
    by_name: bool
    version: int
    deletes: str
    seed: int

    @property
    def text(self) -> str:
        way = "by name" if self.by_name else "by field id"
        return f"{self.family.name} {way}, format {self.version}, deletes: {self.deletes}, seed {self.seed}"


def draw(family: Family, seed: int) -> Case:
    random = Random(seed)
    entries = random.sample(family.entries, min(SLICE, len(family.entries)))
    deletes = random.choice(("none", "position", "equality", "both")) if family.is_spark_readable else "equality"
    version = random.choice((2, 3)) if family.is_spark_readable else 3
    return Case(family, tuple(entries), random.random() < 0.5, version, deletes, seed)


@dataclass(frozen=True)
class Shown:
    """The rows of each partition; as Arrow's, too, where Spark shows them."""

    parts: dict[str, Rows]
    arrow: pa.Table | None


def by_part(rows: pa.Table, parts: Iterable[str], **more: bool) -> dict[str, Rows]:
    places: dict[str, list[int]] = {part: [] for part in parts}
    for place, part in enumerate(rows["part"].to_pylist()):
        places[part].append(place)
    return {part: exact_rows(rows.take(pa.array(found, pa.int64())), **more) for part, found in places.items()}


class Import:
    """The table of a case, with the files of all entries that could be written and read."""

    def __init__(self, lake: Lake, case: Case, tally: Tally) -> None:
        self.lake = lake
        self.case = case
        self.tally = tally
        self.table = self._create()
        self.entries: dict[str, Entry] = {}
        self._fill()

    def _create(self) -> TableId:
        """In the order that the files have: Iceberg's generic reader takes columns without ids by their places."""
        wanted = self.case.family.columns
        by_sql = not any(column.kind.name in (*JAVA_ONLY, *UNREADABLE) for column in wanted)
        listed = "".join(f", {column.name} {column.kind.sql}" for column in wanted) if by_sql else ""
        table = self.lake.create(
            f"id BIGINT, part STRING{listed}", hint="corpus", partitioned_by="part", version=self.case.version
        )
        java = self.lake.java(table)
        update = java.updateSchema()
        for column in () if by_sql else wanted:
            update = update.addColumn(column.name, java_type(self.lake, column.kind))
        update.commit()
        java.refresh()
        mapping = self.lake.iceberg.mapping.MappingUtil.create(java.schema())
        said = self.lake.iceberg.mapping.NameMappingParser.toJson(mapping)
        java.updateProperties().set("schema.name-mapping.default", said).commit()
        if self.case.family.is_spark_readable:
            self.lake.sql(f"REFRESH TABLE {table}")
        return table

    def _fill(self) -> None:
        folder = self.lake.place(self.table) / "imported"
        for number, entry in enumerate(self.case.entries):
            part = f"e{number:02d}"
            try:
                self._write(folder / f"part={part}", entry, part, number)
            except (pa.ArrowException, ValueError, TypeError, NotImplementedError) as error:
                self.tally.skipped[f"{entry.name} cannot write {self.case.family.name}: {_short(error)}"] += 1
                continue
            self.entries[part] = entry
        self._import(folder)

    def _write(self, folder: Path, entry: Entry, part: str, number: int) -> None:
        folder.mkdir(parents=True)
        for file in range(FILES):
            first = (number * FILES + file) * ROWS
            rows = rows_of(self.case.family, part, first, crc32(f"{self.case.seed}/{entry.name}/{file}".encode()))
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
                self.tally.notes[f"add_files fails on {self.case.family.name}: {_short(error)}"] += 1
        self._commit(folder)

    def _add_files(self, folder: Path) -> None:
        source = f"`parquet`.`file:{folder}`"
        self.lake.sql(f"CALL lake.system.add_files(table => '{self.table}', source_table => '{source}')").collect()

    def _commit(self, folder: Path) -> None:
        """Through Iceberg's Java API, with the metrics that it takes from the footers."""
        java = self.lake.java(self.table)
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
            built = iceberg.DataFiles.builder(java.spec()).withInputFile(file).withMetrics(metrics)
            append.appendFile(built.withPartitionPath(path.parent.name).withFormat("parquet").build())
        append.commit()

    def _skip(self, part: str, what: str, error: Exception) -> None:
        if (entry := self.entries.pop(part, None)) is not None:
            self.tally.skipped[f"{self.case.family.name}, {entry.name}: {what}: {_short(error)}"] += 1

    def read_row_by_row(self) -> None:
        """Iceberg's vectorized reader on Spark lacks some encodings that its other one has."""
        off = {"read.parquet.vectorization.enabled": "false"}
        update = self.lake.java(self.table).updateProperties()
        for name, value in off.items():
            update.set(name, value)
        update.commit()
        self.tally.notes[f"{self.case.family.name}: read row by row"] += 1

    def drop_unreadable(self) -> None:
        """Takes out what Iceberg's own readers cannot read."""
        for part in list(self.entries):
            try:
                self.show(part)
            except READ_ERRORS as error:
                self._skip(part, "Iceberg cannot read it", error)
                expressions = self.lake.iceberg.expressions.Expressions
                self.lake.java(self.table).newDelete().deleteFromRowFilter(expressions.equal("part", part)).commit()

    def show(self, part: str = "") -> Shown:
        """By Iceberg's own reader: on Spark, or for types that Spark lacks its generic one."""
        family = self.case.family
        if not family.is_spark_readable:
            columns = ["id", "part", *(column.name for column in family.columns)]
            rows = generic_rows(self.lake, self.table, columns, part)
            return Shown({part: [row for row in rows if f", {part}, " in row] for part in self.entries}, None)
        lineage = ", _row_id, _last_updated_sequence_number" if self.case.version >= 3 else ""
        where = f" WHERE part = '{part}'" if part else ""
        arrow = self.lake.sql(f"SELECT *{lineage} FROM {self.table}{where}").toArrow()
        return Shown(by_part(arrow, self.entries), arrow)

    def delete(self) -> None:
        if self.case.deletes in ("equality", "both"):
            for number, part in enumerate(self.entries):
                if number % 2 == 0:
                    ids = [(position,) for position in range(number * FILES * ROWS, (number + 1) * FILES * ROWS, 5)]
                    equality_delete(self.lake, self.table, ["id"], ids, partition=f"part={part}")
        if self.case.deletes in ("position", "both"):
            self.lake.sql(f"DELETE FROM {self.table} WHERE id % 7 = 3")


def _short(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0] if lines else type(error).__name__)[:160]


def check(lake: Lake, case: Case, tally: Tally) -> None:
    """Compacts the table of a case, and tallies what became of each entry."""
    tally.tables += 1
    made = Import(lake, case, tally)
    before = _before(made)
    if not made.entries:
        return
    filters = _filters(made, before)
    asked = expected_answers(lake, before.arrow, filters) if filters else {}
    record = lake.run(made.table, Compact(rewrite_all=True, delete_file_threshold=1))
    is_left = not case.family.is_spark_readable and "Spark does not support" in record.message
    if record.state is not RunState.SUCCEEDED and not is_left:
        _isolate(lake, case, tally, f"{record.state}: {record.message}")
    elif problems := [*_proof_problems(record), *_row_problems(made, before), *_filter_problems(lake, made, asked)]:
        tally.mismatches += [f"{case.text}: {problem}" for problem in problems]
    elif is_left:
        tally.skipped[f"{case.family.name}: left as it was, because Spark cannot rewrite such a table"] += 1
    else:
        tally.count(record)
    if case.family.is_spark_readable:
        lake.sql(f"DROP TABLE {sql.table_name(made.table)} PURGE")


def _filters(made: Import, before: Shown) -> list[str]:
    if before.arrow is None:
        return []
    return predicates(made.lake, made.table, before.arrow, Random(made.case.seed), MOST_FILTERS)


def _isolate(lake: Lake, case: Case, tally: Tally, problem: str) -> None:
    """A run that fails does not say because of which file: halves of the entries are tried, down to one."""
    known = len(tally.mismatches)
    middle = len(case.entries) // 2
    for entries in (case.entries[:middle], case.entries[middle:]) if middle else ():
        check(lake, replace(case, entries=entries), tally)
    if len(tally.mismatches) == known:
        names = "; ".join(entry.name for entry in case.entries)
        tally.mismatches.append(f"{case.text}: {names}: {problem}")


def _before(made: Import) -> Shown:
    try:
        made.show()
    except READ_ERRORS:
        _make_readable(made)
    made.delete()
    return made.show()


def _make_readable(made: Import) -> None:
    if made.case.family.is_spark_readable:
        made.read_row_by_row()
    try:
        made.show()
    except READ_ERRORS:
        made.drop_unreadable()


def _proof_problems(record: RunRecord) -> Iterator[str]:
    """What the run itself has noticed: then Spark has repaired it, but the kernel was wrong, or the check."""
    if record.value_proof is not None and (mismatch := record.value_proof.mismatch) is not None:
        yield f"the run reports a mismatch in {mismatch.partition}: {mismatch.differences[:3]}"


def _row_problems(made: Import, before: Shown) -> Iterator[str]:
    after = made.show()
    for part, rows in before.parts.items():
        if after.parts[part] != rows:
            yield f"{made.entries[part].name}: rows differ: {_difference(rows, after.parts[part])}"
    found = made.lake.catalogs.load(made.table).scan().to_arrow()
    if after.arrow is not None:
        lineage = [name for name in after.arrow.column_names if name.startswith("_")]
        expected = by_part(after.arrow.drop_columns(lineage), made.entries, is_empty_null=True)
        for part, rows in by_part(found, made.entries, is_empty_null=True).items():
            if rows != expected[part]:
                yield f"{made.entries[part].name}: PyIceberg differs: {_difference(expected[part], rows)}"


def _filter_problems(lake: Lake, made: Import, asked: dict[str, Rows]) -> Iterator[str]:
    now = answers(lake, made.table, list(asked))
    for text, ids in asked.items():
        if now[text] != ids:
            yield f"WHERE {text} finds {len(now[text])} rows, not {len(ids)}"


def _difference(before: Rows, after: Rows) -> str:
    gone, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    return f"{len(before)} → {len(after)} rows; {gone[:1]} → {new[:1]}"


def test_files_of_other_writers_keep_their_values(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("corpus")
    with tally.printed(capsys):
        for number, family in enumerate(FAMILIES):
            check(lake, draw(family, number), tally)
    assert not tally.mismatches
    assert tally.natively_exact > tally.sent_to_spark.total()


@pytest.mark.skipif(not SOAK, reason="make soak")
def test_for_as_long_as_one_likes(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally("corpus")
    ends_at = time.monotonic() + SOAK_SECONDS
    with tally.printed(capsys):
        families = (*FAMILIES, *UNREAD)
        for number in count(Random().getrandbits(32)):
            check(lake, draw(families[number % len(families)], number), tally)
            if time.monotonic() >= ends_at:
                break
    assert not tally.mismatches
