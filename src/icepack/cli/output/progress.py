"""The progress bar of running actions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icepack.cli.console import console
from icepack.domain.ports.engine import Progress, ProgressSink, no_progress

# The bar of a running action stops here; it is complete only when the action has finished.
MAX_UNFINISHED_SHARE = 0.95


class ProgressBar:
    """Counts finished actions on a rich progress bar; shows nothing if there is no terminal."""

    def __init__(self, bar: Any | None, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total) if bar is not None else None
        self._done = 0

    def start_action(self, description: str) -> ProgressSink:
        """Shows the description and returns a sink for the progress of the action."""
        bar = self._bar
        if bar is None:
            return no_progress
        bar.update(self._task, description=description, completed=self._done)

        def update(progress: Progress) -> None:
            share = progress.done / progress.total if progress.total else 0
            bar.update(self._task, completed=self._done + min(share, MAX_UNFINISHED_SHARE))

        return update

    def finish_action(self) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)


@contextmanager
def progress_bar(output: str, total: int = 1) -> Iterator[ProgressBar]:
    if output == "json" or not console().is_terminal:
        yield ProgressBar(None, total)
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(30), TextColumn("{task.completed:.0f}/{task.total}"), TimeElapsedColumn())
    text = TextColumn("{task.description}", markup=False)
    with RichProgress(*columns, text, console=console(), transient=True) as bar:
        yield ProgressBar(bar, total)
