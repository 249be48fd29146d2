"""The workloads and data sets of the benchmark, at both scales."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchmarks.compaction.sample_data import SHAPES, TableGenerator

from icepack.domain.units import MIB

TARGET_FILE_BYTES = 512 * MIB
WARM_FILES = 3
# Files per workload in the bucket; a few are enough, because requests grow in proportion to files.
REQUEST_FILES = 5


class Deletes(StrEnum):
    NONE = "none"
    POSITION = "position"
    EQUALITY = "equality"
    VECTOR = "vector"


class Scale(StrEnum):
    FULL = "full"
    SMALL = "small"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Files of one shape; several workloads may share them."""

    name: str
    shape: str
    files: int
    rows_per_file: int
    rows_per_group: int = 1024 * 1024
    has_page_index: bool = False
    # Whether Spark writes the files, as many and with the same rows as PyArrow would.
    is_by_spark: bool = False

    @property
    def generate(self) -> TableGenerator:
        return SHAPES[self.shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    key: str
    title: str
    data: str
    deletes: Deletes = Deletes.NONE
    sort_by: tuple[str, ...] = ()
    # The factor by which icepack must use less CPU than Spark.
    min_ratio: float = 2.5
    # Whether all levels of proof are measured.
    compares_proofs: bool = False

    @property
    def format_version(self) -> int:
        return 3 if self.deletes is Deletes.VECTOR else 2


WORKLOADS = (
    Workload(key="a", title="14 columns, bin-packed", data="events", min_ratio=3.0, compares_proofs=True),
    Workload(key="b", title="files of 100 KB", data="tiny"),
    Workload(key="c", title="20 % of rows position-deleted", data="events", deletes=Deletes.POSITION),
    Workload(key="d", title="equality deletes, 2 % of rows", data="events", deletes=Deletes.EQUALITY),
    Workload(key="e", title="deletion vectors, 20 % of rows, v3", data="events", deletes=Deletes.VECTOR),
    Workload(key="f", title="sorted by two columns", data="events", sort_by=("country", "user_id")),
    Workload(key="g", title="250 columns", data="wide"),
    Workload(key="h", title="nested types", data="nested"),
    Workload(key="j", title="14 columns, files that Spark wrote", data="by_spark", min_ratio=3.0),
)
# Workloads that are measured only when they are named.
EXTRAS = (Workload(key="i", title="row groups of 45 MB, copied", data="large"),)

# Rows of `events` in a file of about 100 KB.
_TINY_ROWS = 3_300
_LARGE_ROWS = 2_500_000


def _large(*, files: int) -> DataSet:
    """One row group per file, with page indexes, as most writers write them."""
    return DataSet(
        name="large",
        shape="events",
        files=files,
        rows_per_file=_LARGE_ROWS,
        rows_per_group=_LARGE_ROWS,
        has_page_index=True,
    )


DATA_SETS = {
    Scale.FULL: (
        DataSet(name="events", shape="events", files=100, rows_per_file=200_000),
        DataSet(name="tiny", shape="events", files=10_000, rows_per_file=_TINY_ROWS),
        DataSet(name="wide", shape="wide", files=80, rows_per_file=25_000),
        DataSet(name="nested", shape="nested", files=200, rows_per_file=50_000),
        DataSet(name="by_spark", shape="events", files=100, rows_per_file=200_000, is_by_spark=True),
        _large(files=8),
    ),
    Scale.SMALL: (
        DataSet(name="events", shape="events", files=10, rows_per_file=100_000),
        DataSet(name="tiny", shape="events", files=300, rows_per_file=_TINY_ROWS),
        DataSet(name="wide", shape="wide", files=8, rows_per_file=10_000),
        DataSet(name="nested", shape="nested", files=8, rows_per_file=25_000),
        DataSet(name="by_spark", shape="events", files=10, rows_per_file=100_000, is_by_spark=True),
        _large(files=2),
    ),
}


def select_workloads(only: str) -> list[Workload]:
    """Selects workloads by their letters; without any, all but the extras."""
    keys = [key.strip() for key in only.split(",") if key.strip()]
    known = {workload.key: workload for workload in (*WORKLOADS, *EXTRAS)}
    unknown = [key for key in keys if key not in known]
    if unknown:
        raise SystemExit(f"Unknown workload '{unknown[0]}'. Use one of: {', '.join(known)}.")
    return [known[key] for key in keys] or list(WORKLOADS)
