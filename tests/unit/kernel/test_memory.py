"""What is said to Arrow before it is loaded, in a process that has not loaded it yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from icepack.kernel.memory import CONF, ENOUGH_BYTES, FRUGAL, GENEROUS, POOL

ASK = """
import json, os, sys
from icepack.kernel.memory import choose_allocator, settle_allocator
settle_allocator(int(sys.argv[1]))
import pyarrow as pa
choose_allocator()
print(json.dumps([os.environ.get("JE_ARROW_MALLOC_CONF"), pa.default_memory_pool().backend_name]))
"""


def asked(task_bytes: int, **said: str) -> list[str]:
    environment = {key: value for key, value in os.environ.items() if key not in (POOL, CONF)} | said
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(task_bytes)], env=environment, check=True, capture_output=True, text=True
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="Arrow has jemalloc on Linux alone")
def test_a_task_with_little_memory_is_frugal_and_whoever_said_something_is_heard() -> None:
    assert asked(ENOUGH_BYTES) == [GENEROUS[CONF], "jemalloc"]
    assert asked(ENOUGH_BYTES - 1) == [FRUGAL[CONF], "jemalloc"]
    assert asked(ENOUGH_BYTES, **{CONF: "narenas:2"}) == ["narenas:2", "jemalloc"]
