"""Describes the machine and its settings, without names or paths."""

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
    """Returns the load average of the last minute per core."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def _field(path: str, name: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "unknown")


def touch_memory(size: int) -> None:
    """Allocates and frees memory, so that the next process gets its memory without delay.

    A virtual machine may have returned free memory to its host, except for the first few GB; a process that needs more
    waits until the host gives it back. Without this, an engine with a JVM would pay for memory that an engine without
    one never allocates.
    """
    if size:
        with mmap(-1, size) as taken:
            for page in range(0, size, PAGESIZE):
                taken[page] = 1
