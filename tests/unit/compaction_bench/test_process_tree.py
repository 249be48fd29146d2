"""Resource usage includes child processes; otherwise engines that work in one would look too good."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.compaction.process_tree import cpu_seconds, list_process_tree, watch_usage

BURN = "import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def test_a_child_that_has_ended_counts() -> None:
    with watch_usage(os.getpid()) as usage:
        subprocess.run([sys.executable, "-c", BURN.format(seconds=0.3)], check=True)
    assert usage.cpu_seconds >= 0.3


def test_a_grandchild_that_still_runs_counts() -> None:
    inner = [sys.executable, "-c", BURN.format(seconds=0.3) + "\nprint('burnt', flush=True); input()"]
    outer = f"import subprocess; subprocess.run({inner!r})"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"burnt\n"
        assert len(list_process_tree(child.pid)) == 2
        assert cpu_seconds(child.pid) >= 0.3
        child.stdin.write(b"\n")
        child.stdin.close()
