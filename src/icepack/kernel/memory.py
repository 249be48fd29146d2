"""Which allocator Arrow works with.

Columns are large and short-lived. Measured on 4 million rows of 14 columns: mimalloc, the default, spent 2.2 s
of 5.2 s in the operating system, jemalloc 0.6 s of 3.3 s, malloc 0.4 s of 3.5 s.
"""

from __future__ import annotations

import pyarrow as pa

KEPT_MILLISECONDS = 5_000
"""How long jemalloc keeps what was freed. With one second, its own choice, pages are given back between two columns
and asked for again: 0.15 s in the operating system for each second of work, instead of 0.1 s."""


def choose_allocator() -> None:
    """jemalloc where this build of Arrow has it, else the system's."""
    if "jemalloc" in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())
        pa.jemalloc_set_decay_ms(KEPT_MILLISECONDS)
    else:
        pa.set_memory_pool(pa.system_memory_pool())
