"""Ctrl-C and SIGTERM: the first asks the run to stop cleanly, the second leaves at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType

import click


@contextmanager
def stoppable() -> Iterator[Event]:
    """An event that is set when the user wants to stop."""
    cancel = Event()

    def ask(signum: int, frame: FrameType | None) -> None:
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        click.echo(
            "\nStopping: waiting for Spark to let go of the table. Press Ctrl-C again to leave at once.", err=True
        )

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
