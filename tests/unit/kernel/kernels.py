"""Tasks on files of this machine, for tests of the kernel without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import arrow_schema
from icepack.kernel.rewrite import rewrite
from icepack.kernel.storage import Storage
from icepack.kernel.task import Input, Task, Written

Json = dict[str, Any]


def column(number: int, name: str, kind: Any, *, required: bool = False, **more: Any) -> Json:
    return {"id": number, "name": name, "type": kind, "required": required, **more}


def schema_of(*columns: Json) -> Json:
    return {"type": "struct", "schema-id": 0, "fields": list(columns)}


@dataclass(frozen=True)
class Bench:
    """A folder with inputs and an output."""

    folder: Path

    def write(self, schema: Json, rows: dict[str, list[Any]], **options: Any) -> Input:
        """A file as Iceberg would write it; its sequence number and row ids may be told."""
        arrow = arrow_schema(schema)
        told = {key: options.pop(key) for key in ("sequence_number", "first_row_id") if key in options}
        return self.add(pa.table([pa.array(rows[f.name], f.type) for f in arrow], schema=arrow), **told, **options)

    def add(
        self, table: pa.Table, *, sequence_number: int = 1, first_row_id: int | None = None, **options: Any
    ) -> Input:
        path = self.folder / f"in-{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(table, path, store_schema=False, **options)
        return Input(
            path=path.as_uri(),
            bytes=path.stat().st_size,
            records=table.num_rows,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
        )

    def run(self, schema: Json, inputs: list[Input], **more: Any) -> tuple[Written, pa.Table | None]:
        output = self.folder / "out.parquet"
        task = Task(outputs=(output.as_uri(),), schema=schema, inputs=tuple(inputs), **more)
        written = rewrite(task, Storage({}))
        return written, pq.read_table(output) if written.files else None
