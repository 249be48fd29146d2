"""Handles SIGTERM and Ctrl-C: the first one stops cleanly, the second one exits at once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType

import click


@contextmanager
def stop_on_signal(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `stop` on the first SIGTERM or SIGINT and raises KeyboardInterrupt on the second; yields those received."""
    received: list[int] = []

    def handle(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        if len(received) > 1:
            raise KeyboardInterrupt
        # In another thread: the signal may have interrupted this one while it held a lock that `stop` needs.
        Thread(target=stop, name="icepack-stop").start()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def cancel_on_signal() -> Iterator[Event]:
    """Yields an event that the first signal sets, with a message on stderr."""
    cancel = Event()

    def stop() -> None:
        cancel.set()
        click.echo("\nStopping: waiting for Spark to finish. Press Ctrl-C again to exit at once.", err=True)

    with stop_on_signal(stop):
        yield cancel
