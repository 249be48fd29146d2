"""The machine in a few words, without its name and without a path."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from mmap import PAGESIZE, mmap
from pathlib import Path
from typing import Any

from benchmarks.compaction.session import CORES, DRIVER_MEMORY

from icepack.engine.java.jars import locked_jars


def machine() -> dict[str, Any]:
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(_field("/proc/meminfo", "MemTotal").split()[0]) * 1024,
        "system": f"{platform.system()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    packages = ("icepack", "pyarrow", "numpy", "pyiceberg", "pyspark")
    iceberg = next(jar.version for jar in locked_jars() if jar.artifact.startswith("iceberg-spark-runtime"))
    return {"python": platform.python_version(), "iceberg": iceberg, **{name: version(name) for name in packages}}


def settings() -> dict[str, Any]:
    return {"master": f"local[{CORES}]", "driver_memory": DRIVER_MEMORY, "codec": "zstd", "level": 3}


def load_per_core() -> float:
    """Of the last minute: what else the machine is busy with."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def _field(path: str, name: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "unknown")


def touch_memory(size: int) -> None:
    """Takes memory and gives it back, so that whoever asks next is served from it.

    A virtual machine may have lent free memory to its host, and the first few GB are not among it; who takes more pays
    for getting the rest back. An engine with a JVM would pay for memory that one without does not reach.
    """
    if size:
        with mmap(-1, size) as taken:
            for page in range(0, size, PAGESIZE):
                taken[page] = 1
