"""`make bench-compaction`: builds the data, measures the engines on it, checks the rows, reports."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compaction.campaign import Campaign
from benchmarks.compaction.report import show, write
from benchmarks.compaction.workloads import Scale, chosen

RESULTS = Path(__file__).parents[1] / "results" / "compaction.json"


@dataclass(frozen=True, slots=True)
class _Arguments:
    scale: Scale
    only: str
    rounds: int
    out: Path
    folder: Path | None


def main() -> int:
    arguments = _parsed()
    workloads = chosen(arguments.only)
    with tempfile.TemporaryDirectory(prefix="icepack-bench-", dir=arguments.folder) as folder:
        found = Campaign(Path(folder), workloads, arguments.scale, arguments.rounds).run()
    write(found, arguments.out)
    show(found)
    return 0 if all(result.rows_match for result in found.results) else 1


def _parsed() -> _Arguments:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction", description=__doc__)
    parser.add_argument("--scale", choices=[*Scale], default=Scale.FULL, type=Scale)
    parser.add_argument("--only", default="", metavar="a,c", help="these workloads; all but (i) when none is named")
    parser.add_argument("--rounds", type=int, help="at most; 3 at full scale, 1 at the small one")
    parser.add_argument("--out", default=RESULTS, type=Path, help="where the results are written")
    parser.add_argument("--folder", type=Path, help="where the lake is built, which takes a few GB at full scale")
    found = parser.parse_args()
    if found.rounds is None:
        found.rounds = 3 if found.scale is Scale.FULL else 1
    return _Arguments(**vars(found))


if __name__ == "__main__":
    raise SystemExit(main())
