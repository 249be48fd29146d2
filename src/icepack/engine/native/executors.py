"""Computes how many threads and how much memory a task may use on Spark's executors."""

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
# Limits of the memory budget of a task, which is for the columns it works on. More does not make a task faster.
MAX_TASK_BYTES = 512 * MB
MIN_TASK_BYTES = 32 * MB
# The share of the machine's free memory that the tasks of a local session may use. The JVM's heap needs the rest.
FREE_MEMORY_SHARE = 0.5

CORES, TASK_CPUS = "spark.executor.cores", "spark.task.cpus"
MEMORY, PYTHON_MEMORY = "spark.executor.memory", "spark.executor.pyspark.memory"
OVERHEAD, FACTOR = "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"
_SETTINGS = (CORES, TASK_CPUS, MEMORY, PYTHON_MEMORY, OVERHEAD, FACTOR)
# Defaults of Spark.
MIN_OVERHEAD_BYTES = 384 * MB
DEFAULT_OVERHEAD_FACTOR = 0.1
DEFAULT_EXECUTOR_MEMORY = "1g"
# Masters that kill an executor whose memory outside the JVM heap exceeds the memory overhead.
LIMITING_MASTERS = ("k8s", "yarn")
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")

_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_UNITS = {"": MB, "k": 2**10, "m": MB, "g": 2**30, "t": 2**40, "p": 2**50}


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """The memory that a Python worker needs.

    Measured with budgets from 32 to 512 MB on two tables, with one and two threads.
    """

    # After the kernel is loaded.
    idle: int
    # For each byte of the task's budget: the budget is for columns, and reading and encoding them needs more.
    growth: float


RESIDENT_MEMORY = WorkerMemory(160 * MB, 1.4)
# Spark enforces `spark.executor.pyspark.memory` on the address space, most of which is not backed by memory.
ADDRESS_SPACE = WorkerMemory(600 * MB, 2.0)


@dataclass(frozen=True, slots=True)
class ExecutorResources:
    """The executors of a session and their resources."""

    count: int
    # How many tasks an executor runs at a time.
    slots: int
    # The memory for all Python workers of an executor together; None if it is not limited.
    python_bytes: int | None
    # The setting that increases this memory.
    setting: str = ""
    worker: WorkerMemory = RESIDENT_MEMORY

    def threads_per_task(self, tasks: int) -> int:
        """The threads of each task if all of them run at once, and at most those of one executor."""
        return max(min(self.count * self.slots // max(tasks, 1), self.slots), 1)

    @property
    def task_bytes(self) -> int:
        if self.python_bytes is None:
            return MAX_TASK_BYTES
        room = (self.python_bytes // self.slots - self.worker.idle) / self.worker.growth
        return min(max(int(room), MIN_TASK_BYTES), MAX_TASK_BYTES)

    @property
    def fallback_reason(self) -> str | None:
        """Why the executors have too little memory; a local session has no limit that could be raised."""
        needed = self.worker.idle + int(MIN_TASK_BYTES * self.worker.growth)
        if self.python_bytes is None or not self.setting or self.python_bytes // self.slots >= needed:
            return None
        return (
            f"executors with {self.python_bytes // self.slots // MB} MB of memory for a Python task, of which the "
            f"kernel needs {needed // MB}: increase {self.setting}"
        )


def get_executor_resources(spark: SparkSession) -> ExecutorResources:
    context = spark.sparkContext
    master, cores = str(context.master), int(context.defaultParallelism)
    if master.startswith("local["):
        return ExecutorResources(1, cores, int(read_free_memory() * FREE_MEMORY_SHARE))
    conf = {key: value for key in _SETTINGS if (value := spark.conf.get(key, None))}
    registered = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
    return compute_remote_resources(master, conf, cores=cores, registered=registered)


def compute_remote_resources(master: str, conf: Mapping[str, str], *, cores: int, registered: int) -> ExecutorResources:
    """`registered` excludes the driver; with dynamic allocation it may be 0."""
    count = max(registered, 1)
    executor_cores = int(conf.get(CORES, 0)) or -(-cores // count)
    slots = max(executor_cores // int(conf.get(TASK_CPUS, 1)), 1)
    if PYTHON_MEMORY in conf:
        return ExecutorResources(count, slots, _parse_size(conf[PYTHON_MEMORY]), PYTHON_MEMORY, ADDRESS_SPACE)
    if not master.startswith(LIMITING_MASTERS):
        return ExecutorResources(count, slots, None)
    return ExecutorResources(count, slots, _overhead_bytes(conf), OVERHEAD)


def read_free_memory() -> int:
    """The free memory, in bytes, of this machine or of the container that this process runs in."""
    meminfo = {name: int(text.split()[0]) for name, _, text in (line.partition(":") for line in _read_lines(MEMINFO))}
    free = meminfo["MemAvailable"] * 1024 if "MemAvailable" in meminfo else _physical_bytes() // 2
    limit, used = ("".join(_read_lines(CGROUP / name)) for name in ("memory.max", "memory.current"))
    if not (limit.isdigit() and used.isdigit()):
        return free
    # The page cache counts as used, but the kernel frees it when memory is needed.
    cached = dict(line.split() for line in _read_lines(CGROUP / "memory.stat")).get("inactive_file", "0")
    return min(free, max(int(limit) - int(used) + int(cached), 0))


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        # The file exists only on Linux, and the cgroup files only inside a container.
        return []


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _overhead_bytes(conf: Mapping[str, str]) -> int:
    """The memory overhead of an executor, computed as Spark does."""
    if overhead := conf.get(OVERHEAD):
        return _parse_size(overhead)
    factor = float(conf.get(FACTOR, DEFAULT_OVERHEAD_FACTOR))
    return max(int(_parse_size(conf.get(MEMORY, DEFAULT_EXECUTOR_MEMORY)) * factor), MIN_OVERHEAD_BYTES)


def _parse_size(text: str) -> int:
    """Parses a size in Spark's notation; a number without a unit is in MB."""
    found = _SIZE.fullmatch(text.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else 0
