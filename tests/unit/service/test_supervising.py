"""The supervisor: its child is started again when it dies, and never outlives it."""

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

AT_ONCE = Backoff(first_seconds=0.01, longest_seconds=0.01)
OBEDIENT = (
    "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); time.sleep(600)"
)
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); open({0!r}, 'w').close(); time.sleep(600)"


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_a_child_that_dies_is_started_again() -> None:
    supervisor = Supervisor([sys.executable, "-c", OBEDIENT], backoff=AT_ONCE)
    supervisor.start()
    try:
        until(lambda: supervisor.pid)
        first = supervisor.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor.pid not in (None, first))
        assert supervisor.trouble() == ""
    finally:
        supervisor.stop()
    assert supervisor.pid is None
    assert supervisor.starts == 2


def test_a_child_that_cannot_start_is_tried_more_and_more_rarely() -> None:
    pauses: list[int] = []

    class Noted(Backoff):
        def pause_seconds(self, failures: int) -> float:
            pauses.append(failures)
            return 0.01

    supervisor = Supervisor([sys.executable, "-c", "raise SystemExit(3)"], backoff=Noted())
    supervisor.start()
    until(lambda: len(pauses) >= 3)
    supervisor.stop()
    assert pauses[:3] == [1, 2, 3]
    assert "started again" in supervisor.trouble()


def test_a_child_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    mark = tmp_path / "up"
    supervisor = Supervisor([sys.executable, "-c", STUBBORN.format(str(mark))], grace_seconds=0.2)
    supervisor.start()
    until(mark.exists)
    supervisor.stop()
    assert supervisor.pid is None


def test_the_childs_input_ends_with_the_supervisor(tmp_path: Path) -> None:
    """As a worker that is attached sees it, when its parent is killed."""
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
    until(mark.exists)
