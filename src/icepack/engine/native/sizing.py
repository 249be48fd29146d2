"""How much of an executor a task may take: the threads that its cores allow, and the memory that is left to Python."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MB = 2**20
MOST_TASK_BYTES = 512 * MB
"""For the columns in work; more makes nothing faster."""
LEAST_TASK_BYTES = 32 * MB
FREE_SHARE = 0.5
"""Of this machine's free memory, for the tasks of a local session: the JVM's heap grows into the other half."""

CORES, TASK_CPUS = "spark.executor.cores", "spark.task.cpus"
MEMORY, PYTHON_MEMORY = "spark.executor.memory", "spark.executor.pyspark.memory"
OVERHEAD, FACTOR = "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"
SETTINGS = (CORES, TASK_CPUS, MEMORY, PYTHON_MEMORY, OVERHEAD, FACTOR)
LEAST_OVERHEAD_BYTES = 384 * MB
OVERHEAD_FACTOR = 0.1
EXECUTOR_MEMORY = "1g"
LIMITING_MASTERS = ("k8s", "yarn")
"""They end an executor whose Python workers outgrow what was set aside for all that is not Java."""
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")

_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_UNITS = {"": MB, "k": 2**10, "m": MB, "g": 2**30, "t": 2**40, "p": 2**50}


@dataclass(frozen=True, slots=True)
class Need:
    """What a Python worker takes. Measured with budgets from 32 to 512 MB on two tables, with one thread and two."""

    idle: int
    """Once it has loaded the kernel."""
    growth: float
    """For each byte of a task's budget, which is for columns: to read and to encode them takes the rest."""


RESIDENT = Need(160 * MB, 1.4)
ADDRESSES = Need(600 * MB, 2.0)
"""Spark holds workers to `spark.executor.pyspark.memory` by their addresses, most of which nothing lies at."""


@dataclass(frozen=True, slots=True)
class Executors:
    """What Spark has for tasks, of which several run in one executor at a time."""

    count: int
    slots: int
    """Tasks that one of them runs at a time."""
    python_bytes: int | None
    """For all Python workers of one of them together; None where nobody sets a limit."""
    remedy: str = ""
    """The setting that gives them more."""
    need: Need = RESIDENT

    def threads(self, tasks: int) -> int:
        """Of each task, when all of them run at once; never more than the executor that runs it has."""
        return max(min(self.count * self.slots // max(tasks, 1), self.slots), 1)

    @property
    def task_bytes(self) -> int:
        if self.python_bytes is None:
            return MOST_TASK_BYTES
        room = (self.python_bytes // self.slots - self.need.idle) / self.need.growth
        return min(max(int(room), LEAST_TASK_BYTES), MOST_TASK_BYTES)

    @property
    def obstacle(self) -> str | None:
        """Why the kernel would not fit; a local session has no such limit, only less or more to share."""
        needed = self.need.idle + int(LEAST_TASK_BYTES * self.need.growth)
        if self.python_bytes is None or not self.remedy or self.python_bytes // self.slots >= needed:
            return None
        return (
            f"executors that leave {self.python_bytes // self.slots // MB} MB to a Python task, of which the kernel "
            f"needs {needed // MB}: raise {self.remedy}"
        )


def executors(spark: SparkSession) -> Executors:
    context = spark.sparkContext
    master, cores = str(context.master), int(context.defaultParallelism)
    if master.startswith("local["):
        return Executors(1, cores, int(free_bytes() * FREE_SHARE))
    said = {key: spark.conf.get(key, None) for key in SETTINGS}
    live = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
    return remote_executors(master, {key: value for key, value in said.items() if value}, cores=cores, live=live)


def remote_executors(master: str, conf: Mapping[str, str], *, cores: int, live: int) -> Executors:
    """`live` does not count the driver; where executors come as they are needed, there may be none yet."""
    count = max(live, 1)
    each = int(conf.get(CORES, 0)) or -(-cores // count)
    slots = max(each // int(conf.get(TASK_CPUS, 1)), 1)
    if PYTHON_MEMORY in conf:
        return Executors(count, slots, _bytes(conf[PYTHON_MEMORY]), PYTHON_MEMORY, ADDRESSES)
    if not master.startswith(LIMITING_MASTERS):
        return Executors(count, slots, None)
    return Executors(count, slots, _overhead(conf), OVERHEAD)


def free_bytes() -> int:
    """Of this machine, or of the container that this process runs in."""
    said = {name: int(text.split()[0]) for name, _, text in (line.partition(":") for line in _lines(MEMINFO))}
    free = said["MemAvailable"] * 1024 if "MemAvailable" in said else _physical_bytes() // 2
    limit, used = ("".join(_lines(CGROUP / name)) for name in ("memory.max", "memory.current"))
    if not (limit.isdigit() and used.isdigit()):
        return free
    # Files that were read count as used until somebody needs the room.
    cached = dict(line.split() for line in _lines(CGROUP / "memory.stat")).get("inactive_file", "0")
    return min(free, max(int(limit) - int(used) + int(cached), 0))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        # No such file where the system is another, or the container is the whole machine.
        return []


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _overhead(conf: Mapping[str, str]) -> int:
    """As Spark reckons it for an executor."""
    if said := conf.get(OVERHEAD):
        return _bytes(said)
    factor = float(conf.get(FACTOR, OVERHEAD_FACTOR))
    return max(int(_bytes(conf.get(MEMORY, EXECUTOR_MEMORY)) * factor), LEAST_OVERHEAD_BYTES)


def _bytes(text: str) -> int:
    """As Spark writes sizes; a number alone counts in MB."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else 0
