"""The allocator settings that are made before Arrow is loaded, in a process that has not loaded it yet."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from icepack.kernel.memory import (
    HIGH_MEMORY_ENVIRONMENT,
    JEMALLOC_VARIABLE,
    LOW_MEMORY_ENVIRONMENT,
    MEMORY_POOL_VARIABLE,
    MIN_HIGH_MEMORY_BYTES,
)

SCRIPT = """
import json, os, sys
from icepack.kernel.memory import configure_allocator, select_allocator
configure_allocator(int(sys.argv[1]))
import pyarrow as pa
select_allocator()
print(json.dumps([os.environ.get("JE_ARROW_MALLOC_CONF"), pa.default_memory_pool().backend_name]))
"""


def run_script(task_bytes: int, **variables: str) -> list[str]:
    unset = (MEMORY_POOL_VARIABLE, JEMALLOC_VARIABLE)
    environment = {key: value for key, value in os.environ.items() if key not in unset} | variables
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(task_bytes)], env=environment, check=True, capture_output=True, text=True
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="Arrow has jemalloc on Linux alone")
def test_settings_depend_on_the_tasks_memory_and_existing_variables_win() -> None:
    assert run_script(MIN_HIGH_MEMORY_BYTES) == [HIGH_MEMORY_ENVIRONMENT[JEMALLOC_VARIABLE], "jemalloc"]
    assert run_script(MIN_HIGH_MEMORY_BYTES - 1) == [LOW_MEMORY_ENVIRONMENT[JEMALLOC_VARIABLE], "jemalloc"]
    assert run_script(MIN_HIGH_MEMORY_BYTES, **{JEMALLOC_VARIABLE: "narenas:2"}) == ["narenas:2", "jemalloc"]
