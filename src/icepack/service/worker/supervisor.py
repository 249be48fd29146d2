"""A worker as a child process: started again when it ends, so that a failure of Spark's is nobody else's."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from icepack.service.retry import Backoff

log = logging.getLogger(__name__)

RAN_WELL_SECONDS = 60.0
GRACE_SECONDS = 60.0
LOOK_SECONDS = 0.2


class Supervisor:
    """The child's standard input is a pipe of ours: when that closes, by whatever death, the child ends too."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        backoff: Backoff | None = None,
        grace_seconds: float = GRACE_SECONDS,
        ran_well_seconds: float = RAN_WELL_SECONDS,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self._backoff = backoff or Backoff(first_seconds=1.0, longest_seconds=60.0)
        self._grace_seconds = grace_seconds
        self._ran_well_seconds = ran_well_seconds
        self._elapsed_seconds = elapsed_seconds
        self._stop = Event()
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._look_after, name="icepack-supervisor")
        self.starts = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the child to end, waits for it, and ends it by force when that takes too long."""
        self._stop.set()
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                self._child.terminate()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def trouble(self) -> str:
        """Empty while the child runs."""
        return "" if self.pid is not None else "The worker has ended and is started again."

    def _look_after(self) -> None:
        failures = 0
        while not self._stop.is_set():
            began = self._elapsed_seconds()
            code = self._run()
            if self._stop.is_set():
                return
            ran_well = self._elapsed_seconds() - began >= self._ran_well_seconds
            failures = 1 if ran_well else failures + 1
            pause = self._backoff.pause_seconds(failures)
            log.warning("the worker ended with code %s and is started again in %.1f seconds", code, pause)
            self._stop.wait(pause)

    def _run(self) -> int:
        """Until it ends, or does not end soon enough once told to."""
        with self._lock:
            if self._stop.is_set():
                return 0
            # In a session of its own: Ctrl-C is meant for us, who then tell the child once.
            self._child = child = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
            self.starts += 1
        try:
            while True:
                try:
                    return child.wait(LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    if self._stop.is_set():
                        return self._end(child)
        finally:
            if child.stdin is not None:
                child.stdin.close()

    def _end(self, child: subprocess.Popen[bytes]) -> int:
        try:
            return child.wait(self._grace_seconds)
        except subprocess.TimeoutExpired:
            log.error("the worker did not end within %.0f seconds and is killed", self._grace_seconds)
            child.kill()
            return child.wait()
