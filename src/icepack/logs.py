"""Logs: one JSON object a line for machines, plain lines for people; secrets in neither."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

from icepack.tracing import subject

Clean = Callable[[str], str]


class LogFormat(StrEnum):
    AUTO = "auto"
    """JSON, unless somebody is watching on a terminal."""
    HUMAN = "human"
    JSON = "json"


class _Formatter(logging.Formatter):
    """What is said is cleaned as a whole, so that no part of it can hide a secret."""

    def __init__(self, clean: Clean) -> None:
        super().__init__()
        self._clean = clean

    def said(self, record: logging.LogRecord) -> str:
        return self._clean(record.getMessage())

    def trace(self, record: logging.LogRecord) -> str:
        found = [self.formatException(record.exc_info)] if record.exc_info else []
        return self._clean("\n".join([*found, *([self.formatStack(record.stack_info)] if record.stack_info else [])]))


class HumanFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        trace = self.trace(record)
        line = f"{record.levelname} {self.said(record)}"
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(_Formatter):
    """Which job, table and trace a line is about stands in it whenever that is known."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.said(record),
            **{name: self._clean(value) for name, value in subject().items()},
        }
        trace = self.trace(record)
        return json.dumps({**told, "exception": trace} if trace else told, ensure_ascii=False)


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to whatever is the standard error at that moment."""

    def __init__(self, formatter: logging.Formatter) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(formatter)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def configure(wanted: LogFormat, *, level: int, clean: Clean) -> LogFormat:
    """Sends every logger's lines to the standard error, in place of what was configured before; in which form."""
    chosen = wanted if wanted is not LogFormat.AUTO else LogFormat.HUMAN if sys.stderr.isatty() else LogFormat.JSON
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, StderrHandler)]:
        root.removeHandler(former)
    root.addHandler(StderrHandler((JsonFormatter if chosen is LogFormat.JSON else HumanFormatter)(clean)))
    root.setLevel(level)
    return chosen
