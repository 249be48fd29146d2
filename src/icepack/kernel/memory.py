"""Selects and configures the allocator that Arrow uses.

Columns are large and short-lived. Measured on 4 million rows of 14 columns: mimalloc, the default, spent 2.2 s
of 5.2 s in the operating system, jemalloc 0.6 s of 3.3 s, malloc 0.4 s of 3.5 s.
"""

from __future__ import annotations

import os
import sys

# How long jemalloc keeps freed pages. With its default of one second, pages are returned between two columns and
# requested again: 0.15 s in the operating system for each second of work, instead of 0.1 s.
DIRTY_DECAY_MILLISECONDS = 5_000
MEMORY_POOL_VARIABLE, JEMALLOC_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL", "JE_ARROW_MALLOC_CONF"
# A free extent may be split for an allocation that is up to 2 ** 12 times smaller. With its default, 2 ** 6, jemalloc
# leaves large extents alone and requests new memory: a task with 5,000 files of 100 KB took 690 MB instead of 480.
MAX_ACTIVE_FIT_LOG2 = 12
# For tasks with little memory. Parquet's writer allocates from the pool that Arrow started with, whichever pool is
# selected later, and jemalloc's background thread, which returns pages, interrupts every core. Measured on 1,200 files
# of 100 KB, medians of seven: 7.6 s of CPU without these settings, 6.3 s with them.
LOW_MEMORY_ENVIRONMENT = {
    MEMORY_POOL_VARIABLE: "jemalloc",
    JEMALLOC_VARIABLE: (
        f"background_thread:false,lg_extent_max_active_fit:{MAX_ACTIVE_FIT_LOG2},"
        f"dirty_decay_ms:{DIRTY_DECAY_MILLISECONDS},muzzy_decay_ms:0"
    ),
}
# For tasks with enough memory. Without the background thread jemalloc returns every large extent as soon as it is free,
# unless it is told to keep some memory forever, and a thread can reuse memory that another one freed only if they share
# an arena. With both settings, 20 million rows of 14 columns took 11.1 s of CPU instead of 12.0, and 17.7 s instead of
# 19.7 to sort them (medians of three, alternating), for 30 MB more. A task with 128 to 256 MB takes up to two thirds
# more memory than with the low-memory settings, so those are used there. Spark ends a Python worker that is idle for a
# minute, which frees its memory.
HIGH_MEMORY_ENVIRONMENT = {
    MEMORY_POOL_VARIABLE: "jemalloc",
    JEMALLOC_VARIABLE: LOW_MEMORY_ENVIRONMENT[JEMALLOC_VARIABLE].replace(
        "muzzy_decay_ms:0", "muzzy_decay_ms:-1,narenas:1"
    ),
}
# Minimum memory of a task for the high-memory settings: what Spark's executors give a task unless they have less.
MIN_HIGH_MEMORY_BYTES = 512 * 2**20


def configure_allocator(task_bytes: int) -> None:
    """Sets the environment variables that Arrow reads only while it is loaded; variables that are set already win."""
    if sys.platform == "linux" and "pyarrow" not in sys.modules:
        is_high = task_bytes >= MIN_HIGH_MEMORY_BYTES
        for name, value in (HIGH_MEMORY_ENVIRONMENT if is_high else LOW_MEMORY_ENVIRONMENT).items():
            os.environ.setdefault(name, value)


def select_allocator() -> None:
    """Selects jemalloc where this build of Arrow has it, else the system's allocator."""
    import pyarrow as pa

    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        if JEMALLOC_VARIABLE not in os.environ:
            pa.jemalloc_set_decay_ms(DIRTY_DECAY_MILLISECONDS)
    else:
        pa.set_memory_pool(pa.system_memory_pool())
