"""Which allocator Arrow works with, and how that one behaves.

Columns are large and short-lived. Measured on 4 million rows of 14 columns: mimalloc, the default, spent 2.2 s
of 5.2 s in the operating system, jemalloc 0.6 s of 3.3 s, malloc 0.4 s of 3.5 s.
"""

from __future__ import annotations

import os
import sys

KEPT_MILLISECONDS = 5_000
"""How long jemalloc keeps what was freed. With one second, its own choice, pages are given back between two columns
and asked for again: 0.15 s in the operating system for each second of work, instead of 0.1 s."""
POOL, CONF = "ARROW_DEFAULT_MEMORY_POOL", "JE_ARROW_MALLOC_CONF"
FIT = 12
"""A free block may be cut for what is 2 ** 12 times smaller. By its own choice, 2 ** 6, jemalloc leaves large blocks
alone and asks for new memory: a task with 5,000 files of 100 KB took 690 MB instead of 480."""
FRUGAL = {
    POOL: "jemalloc",
    CONF: f"background_thread:false,lg_extent_max_active_fit:{FIT},dirty_decay_ms:{KEPT_MILLISECONDS},muzzy_decay_ms:0",
}
GENEROUS = {POOL: "jemalloc", CONF: FRUGAL[CONF].replace("muzzy_decay_ms:0", "muzzy_decay_ms:-1,narenas:1")}
"""Parquet's writer takes memory from the pool that Arrow began with, whatever is chosen later; and a thread of
jemalloc's own that gives pages back interrupts every core. Measured on 1,200 files of 100 KB, medians of seven:
7.6 s of CPU without this, 6.3 s with it.

Without that thread jemalloc gives every large block back as soon as it is free, unless it is told to keep some memory
for ever; and what one thread has freed another can use only where they share an arena. Told both, 20 million rows of 14
columns took 11.1 s of CPU instead of 12.0, and 17.7 s instead of 19.7 to sort them (medians of three, in turn), for
30 MB more. With 128 to 256 MB to work with a task takes up to two thirds more than it does when it is frugal, so there
it is. A Python worker that has nothing to do for a minute is ended by Spark, and its memory with it."""
ENOUGH_BYTES = 512 * 2**20
"""Of a task's memory to be generous with it: what Spark's executors give it unless they have less."""


def settle_allocator(task_bytes: int) -> None:
    """What Arrow reads only while it is loaded; whoever has said something else keeps it."""
    if sys.platform == "linux" and "pyarrow" not in sys.modules:
        for name, value in (GENEROUS if task_bytes >= ENOUGH_BYTES else FRUGAL).items():
            os.environ.setdefault(name, value)


def choose_allocator() -> None:
    """jemalloc where this build of Arrow has it, else the system's."""
    import pyarrow as pa

    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        if CONF not in os.environ:
            pa.jemalloc_set_decay_ms(KEPT_MILLISECONDS)
    else:
        pa.set_memory_pool(pa.system_memory_pool())
