"""The supervisor restarts its child when it dies, and the child never outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from icepack.service.retry import Backoff
from icepack.service.worker.supervisor import Supervisor

IMMEDIATELY = Backoff(initial_seconds=0.01, max_seconds=0.01)
ENDS_ON_SIGTERM = (
    "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); time.sleep(600)"
)
IGNORES_SIGTERM = "import signal, time; signal.signal(15, signal.SIG_IGN); open({0!r}, 'w').close(); time.sleep(600)"


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_a_child_that_dies_is_restarted() -> None:
    supervisor = Supervisor([sys.executable, "-c", ENDS_ON_SIGTERM], backoff=IMMEDIATELY)
    supervisor.start()
    try:
        wait_until(lambda: supervisor.pid)
        first = supervisor.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: supervisor.pid not in (None, first))
        assert supervisor.describe_failure() == ""
    finally:
        supervisor.stop()
    assert supervisor.pid is None
    assert supervisor.starts == 2


def test_a_child_that_keeps_failing_is_restarted_less_and_less_often() -> None:
    failure_counts: list[int] = []

    class RecordingBackoff(Backoff):
        def delay_seconds(self, failures: int) -> float:
            failure_counts.append(failures)
            return 0.01

    supervisor = Supervisor([sys.executable, "-c", "raise SystemExit(3)"], backoff=RecordingBackoff())
    supervisor.start()
    wait_until(lambda: len(failure_counts) >= 3)
    supervisor.stop()
    assert failure_counts[:3] == [1, 2, 3]
    assert "being restarted" in supervisor.describe_failure()


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "up"
    supervisor = Supervisor([sys.executable, "-c", IGNORES_SIGTERM.format(str(mark))], grace_seconds=0.2)
    supervisor.start()
    wait_until(mark.exists)
    supervisor.stop()
    assert supervisor.pid is None


def test_the_childs_input_ends_with_the_supervisor(tmp_path: Path) -> None:
    """A worker with --attached sees this when its parent is killed."""
    mark = tmp_path / "ended"
    child = f"import sys; sys.stdin.buffer.read(); open({str(mark)!r}, 'w').close()"
    parent = (
        "import sys, time\nfrom icepack.service.worker.supervisor import Supervisor\n"
        f"supervisor = Supervisor([sys.executable, '-c', {child!r}])\nsupervisor.start()\n"
        "while supervisor.pid is None: time.sleep(0.01)\nprint('up', flush=True)\ntime.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.kill()
    process.wait()
    wait_until(mark.exists)
