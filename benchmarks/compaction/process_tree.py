"""Measures CPU and memory of a process and its descendants from outside, by reading /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.05
# Searching for new processes scans all processes of the machine; doing so for every sample would take a fifth of a
# core.
SAMPLES_PER_SCAN = 10
# Positions in /proc/<pid>/stat after the name: the parent, and user and system time of the process and of its reaped
# children.
_PARENT, _TIMES = 1, slice(11, 15)


@dataclass(slots=True)
class Usage:
    """The resource usage during a measurement."""

    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    rss_before_bytes: int = 0
    # Peak memory of the largest process that ran a kernel task.
    task_peak_rss_bytes: int = 0


def list_process_tree(root: int) -> list[int]:
    """Returns the process and its descendants, without those that end in the meantime."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[_PARENT]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Sums CPU time; a descendant that has ended is counted by the process that waited for it."""
    ticks = sum(int(value) for pid in list_process_tree(root) for value in _stat(pid)[_TIMES])
    return ticks / TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def is_task_process(pid: int) -> bool:
    """Whether the process is a worker of Spark's Python daemon or of the bare kernel's pool."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"pyspark.daemon" in command or b"multiprocessing" in command


@contextmanager
def watch_usage(root: int) -> Iterator[Usage]:
    usage = Usage(rss_before_bytes=sum(map(rss_bytes, list_process_tree(root))))
    stopped = threading.Event()
    sampler = threading.Thread(target=_sample, args=(root, usage, stopped), daemon=True)
    before = cpu_seconds(root)
    sampler.start()
    try:
        yield usage
    finally:
        usage.cpu_seconds = cpu_seconds(root) - before
        stopped.set()
        sampler.join()


def _sample(root: int, usage: Usage, stopped: threading.Event) -> None:
    is_task: dict[int, bool] = {}
    for number in count():
        if stopped.wait(SAMPLE_SECONDS):
            return
        if number % SAMPLES_PER_SCAN == 0:
            is_task = {pid: is_task_process(pid) for pid in list_process_tree(root)}
        sizes = {pid: rss_bytes(pid) for pid in is_task}
        usage.peak_rss_bytes = max(usage.peak_rss_bytes, sum(sizes.values()))
        usage.task_peak_rss_bytes = max([usage.task_peak_rss_bytes, *(sizes[pid] for pid in sizes if is_task[pid])])


def _stat(pid: int) -> list[str]:
    """Splits after the last bracket, because the process name may contain any character."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
