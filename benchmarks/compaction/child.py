"""The process that is measured: told over its standard input what to do, it answers with one line of JSON each time.

Who starts it watches it from outside, so that watching costs it nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compaction.engines import BareKernel, Engine, IcepackNative, SparkProcedure
from benchmarks.compaction.workloads import chosen

from icepack.domain.table import TableId
from icepack.domain.verification import ProofLevel

ENGINES: dict[str, Callable[[Path], Engine]] = {
    "spark": SparkProcedure,
    "icepack": IcepackNative,
    "icepack-count": partial(IcepackNative, proof=ProofLevel.COUNT),
    "icepack-full": partial(IcepackNative, proof=ProofLevel.FULL),
    "kernel": BareKernel,
}


def main() -> None:
    name, folder = sys.argv[1:]
    engine = ENGINES[name](Path(folder))
    try:
        for line in sys.stdin:
            order = json.loads(line)
            (workload,) = chosen(order["workload"])
            _say(_timed(lambda: engine.compact(workload, TableId.parse(order["table"]))))  # noqa: B023
    finally:
        engine.close()


def _timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    began = time.perf_counter()
    answer = work()
    return {"wall_seconds": time.perf_counter() - began, **answer}


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
