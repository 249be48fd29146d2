"""CPU and memory of a process and all that it has started, read from /proc by somebody outside of it."""

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
SAMPLES_PER_LOOK = 10
"""To look for new processes goes through all of the machine's, which would take a fifth of a core each time."""
_PARENT, _TIMES = 1, slice(11, 15)
"""Positions in /proc/<pid>/stat after the name: the parent; own and reaped children's time, user and system."""


@dataclass(slots=True)
class Usage:
    """What was seen between the begin and the end of a measurement."""

    cpu_seconds: float = 0.0
    peak_rss_bytes: int = 0
    rss_before_bytes: int = 0
    task_peak_rss_bytes: int = 0
    """Of the largest process that ran a task of the kernel."""


def tree(root: int) -> list[int]:
    """The process and its descendants; those that end meanwhile are left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[_PARENT]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """A descendant that has ended counts with whoever waited for it."""
    ticks = sum(int(value) for pid in tree(root) for value in _stat(pid)[_TIMES])
    return ticks / TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def is_task_process(pid: int) -> bool:
    """A worker of Spark's Python daemon, or of the bare kernel's pool."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"pyspark.daemon" in command or b"multiprocessing" in command


@contextmanager
def watched(root: int) -> Iterator[Usage]:
    usage = Usage(rss_before_bytes=sum(map(rss_bytes, tree(root))))
    over = threading.Event()
    sampler = threading.Thread(target=_sample, args=(root, usage, over), daemon=True)
    before = cpu_seconds(root)
    sampler.start()
    try:
        yield usage
    finally:
        usage.cpu_seconds = cpu_seconds(root) - before
        over.set()
        sampler.join()


def _sample(root: int, usage: Usage, over: threading.Event) -> None:
    is_task: dict[int, bool] = {}
    for number in count():
        if over.wait(SAMPLE_SECONDS):
            return
        if number % SAMPLES_PER_LOOK == 0:
            is_task = {pid: is_task_process(pid) for pid in tree(root)}
        sizes = {pid: rss_bytes(pid) for pid in is_task}
        usage.peak_rss_bytes = max(usage.peak_rss_bytes, sum(sizes.values()))
        usage.task_peak_rss_bytes = max([usage.task_peak_rss_bytes, *(sizes[pid] for pid in sizes if is_task[pid])])


def _stat(pid: int) -> list[str]:
    """The name, which may hold anything, ends with the last bracket."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
