"""The benchmark's own measuring: a figure that leaves out a child process would flatter whoever works in one."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.compaction.tree import cpu_seconds, tree, watched

BURN = "import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def test_a_child_that_has_ended_counts() -> None:
    with watched(os.getpid()) as usage:
        subprocess.run([sys.executable, "-c", BURN.format(seconds=0.3)], check=True)
    assert usage.cpu_seconds >= 0.3


def test_a_grandchild_that_still_runs_counts() -> None:
    inner = [sys.executable, "-c", BURN.format(seconds=0.3) + "\nprint('burnt', flush=True); input()"]
    outer = f"import subprocess; subprocess.run({inner!r})"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"burnt\n"
        assert len(tree(child.pid)) == 2
        assert cpu_seconds(child.pid) >= 0.3
        child.stdin.write(b"\n")
        child.stdin.close()
