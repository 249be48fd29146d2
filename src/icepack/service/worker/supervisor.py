"""Runs a worker as a child process and restarts it when it ends, so that a failure of Spark affects only the child."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from icepack.service.retry import Backoff

log = logging.getLogger(__name__)

# A child that has run for this long is restarted without a longer delay than after a first failure.
HEALTHY_AFTER_SECONDS = 60.0
# How long the child may take to end after it was asked to.
GRACE_SECONDS = 60.0
POLL_SECONDS = 0.2


class Supervisor:
    """Keeps the child running.

    The child's standard input is a pipe that we hold open: if this process dies, the pipe closes and the child ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        backoff: Backoff | None = None,
        grace_seconds: float = GRACE_SECONDS,
        healthy_after_seconds: float = HEALTHY_AFTER_SECONDS,
        elapsed_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = list(command)
        self._backoff = backoff or Backoff(initial_seconds=1.0, max_seconds=60.0)
        self._grace_seconds = grace_seconds
        self._healthy_after_seconds = healthy_after_seconds
        self._elapsed_seconds = elapsed_seconds
        self._stop = Event()
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._restart_until_stopped, name="icepack-supervisor")
        self.starts = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Terminates the child, waits for it, and kills it if it takes too long."""
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

    def describe_failure(self) -> str:
        """Returns an empty string while the child is running."""
        return "" if self.pid is not None else "The worker process has ended and is being restarted."

    def _restart_until_stopped(self) -> None:
        failures = 0
        while not self._stop.is_set():
            started_at = self._elapsed_seconds()
            code = self._run()
            if self._stop.is_set():
                return
            was_healthy = self._elapsed_seconds() - started_at >= self._healthy_after_seconds
            failures = 1 if was_healthy else failures + 1
            delay_seconds = self._backoff.delay_seconds(failures)
            log.warning("worker ended with code %s and is restarted in %.1f seconds", code, delay_seconds)
            self._stop.wait(delay_seconds)

    def _run(self) -> int:
        """Runs the child until it ends, or is killed because it did not end in time."""
        with self._lock:
            if self._stop.is_set():
                return 0
            # A separate session, so that Ctrl-C reaches only us; we then terminate the child once.
            self._child = child = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
            self.starts += 1
        try:
            while True:
                try:
                    return child.wait(POLL_SECONDS)
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
            log.error("worker did not end within %.0f seconds and is killed", self._grace_seconds)
            child.kill()
            return child.wait()
