"""The measured process: reads requests from standard input and answers each with one line of JSON.

It is measured from outside by the process that starts it, so that measuring costs it nothing.
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
from benchmarks.compaction.workloads import select_workloads

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
            request = json.loads(line)
            (workload,) = select_workloads(request["workload"])
            _write(_time(lambda: engine.compact(workload, TableId.parse(request["table"]))))  # noqa: B023
    finally:
        engine.close()


def _time(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    start = time.perf_counter()
    answer = work()
    return {"wall_seconds": time.perf_counter() - start, **answer}


def _write(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
