"""`make bench-compaction`: builds the data, measures the engines, verifies the rows and reports the results."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compaction.benchmark_run import BenchmarkRun
from benchmarks.compaction.report import show, write
from benchmarks.compaction.workloads import Scale, select_workloads

RESULTS = Path(__file__).parents[1] / "results" / "compaction.json"


@dataclass(frozen=True, slots=True)
class _Arguments:
    scale: Scale
    only: str
    rounds: int
    out: Path
    folder: Path | None


def main() -> int:
    arguments = _parse_arguments()
    workloads = select_workloads(arguments.only)
    with tempfile.TemporaryDirectory(prefix="icepack-bench-", dir=arguments.folder) as folder:
        found = BenchmarkRun(Path(folder), workloads, arguments.scale, arguments.rounds).run()
    write(found, arguments.out)
    show(found)
    return 0 if all(result.rows_match for result in found.results) else 1


def _parse_arguments() -> _Arguments:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction", description=__doc__)
    parser.add_argument("--scale", choices=[*Scale], default=Scale.FULL, type=Scale)
    parser.add_argument("--only", default="", metavar="a,c", help="the workloads to run; by default all but (i)")
    parser.add_argument(
        "--rounds", type=int, help="maximum number of rounds; by default 3 at full scale and 1 at small scale"
    )
    parser.add_argument("--out", default=RESULTS, type=Path, help="the file to which the results are written")
    parser.add_argument(
        "--folder", type=Path, help="the folder in which the lake is built; takes a few GB at full scale"
    )
    found = parser.parse_args()
    if found.rounds is None:
        found.rounds = 3 if found.scale is Scale.FULL else 1
    return _Arguments(**vars(found))


if __name__ == "__main__":
    raise SystemExit(main())
