"""Runs kernel tasks on local files, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icepack.kernel.arrow_schema import to_arrow_schema
from icepack.kernel.rewrite import rewrite
from icepack.kernel.storage import Storage
from icepack.kernel.task import InputFile, RewriteResult, Task

Json = dict[str, Any]


def column(field_id: int, name: str, iceberg_type: Any, *, required: bool = False, **more: Any) -> Json:
    return {"id": field_id, "name": name, "type": iceberg_type, "required": required, **more}


def schema_of(*columns: Json) -> Json:
    return {"type": "struct", "schema-id": 0, "fields": list(columns)}


@dataclass(frozen=True)
class KernelHarness:
    """A folder with inputs and an output."""

    folder: Path

    def write(self, schema: Json, rows: dict[str, list[Any]], **options: Any) -> InputFile:
        """Writes a file as Iceberg would; `options` may contain its sequence number and first row id."""
        arrow = to_arrow_schema(schema)
        return self.add(pa.table([pa.array(rows[f.name], f.type) for f in arrow], schema=arrow), **options)

    def add(
        self, table: pa.Table, *, sequence_number: int = 1, first_row_id: int | None = None, **options: Any
    ) -> InputFile:
        path = self.folder / f"in-{len(list(self.folder.iterdir()))}.parquet"
        pq.write_table(table, path, store_schema=False, **options)
        return InputFile(
            path=path.as_uri(),
            bytes=path.stat().st_size,
            records=table.num_rows,
            sequence_number=sequence_number,
            first_row_id=first_row_id,
        )

    def run(self, schema: Json, inputs: list[InputFile], **more: Any) -> tuple[RewriteResult, pa.Table | None]:
        output = self.folder / "out.parquet"
        task = Task(outputs=(output.as_uri(),), schema=schema, inputs=tuple(inputs), **more)
        result = rewrite(task, Storage({}))
        return result, pq.read_table(output) if result.files else None
