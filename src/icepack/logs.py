"""Logging: JSON lines for machines or plain lines for people, both with secrets redacted."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

from icepack.tracing import current_log_context

Clean = Callable[[str], str]


class LogFormat(StrEnum):
    """AUTO is HUMAN on a terminal and JSON elsewhere."""

    AUTO = "auto"
    HUMAN = "human"
    JSON = "json"


class _RedactingFormatter(logging.Formatter):
    """Redacts the formatted text, so that a secret split across arguments is found too."""

    def __init__(self, clean: Clean) -> None:
        super().__init__()
        self._clean = clean

    def message(self, record: logging.LogRecord) -> str:
        return self._clean(record.getMessage())

    def traceback(self, record: logging.LogRecord) -> str:
        exception = [self.formatException(record.exc_info)] if record.exc_info else []
        stack = [self.formatStack(record.stack_info)] if record.stack_info else []
        return self._clean("\n".join([*exception, *stack]))


class HumanFormatter(_RedactingFormatter):
    def format(self, record: logging.LogRecord) -> str:
        traceback = self.traceback(record)
        line = f"{record.levelname} {self.message(record)}"
        return f"{line}\n{traceback}" if traceback else line


class JsonFormatter(_RedactingFormatter):
    """Adds the job, table and trace of the current log context to each line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message(record),
            **{name: self._clean(value) for name, value in current_log_context().items()},
        }
        traceback = self.traceback(record)
        return json.dumps({**fields, "exception": traceback} if traceback else fields, ensure_ascii=False)


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, also if it is replaced later."""

    def __init__(self, formatter: logging.Formatter) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(formatter)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def configure_logging(log_format: LogFormat, *, level: int, clean: Clean) -> LogFormat:
    """Sends the log lines of every logger to stderr, replaces an earlier configuration, and returns the format used."""
    if log_format is LogFormat.AUTO:
        log_format = LogFormat.HUMAN if sys.stderr.isatty() else LogFormat.JSON
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, StderrHandler)]:
        root.removeHandler(former)
    root.addHandler(StderrHandler((JsonFormatter if log_format is LogFormat.JSON else HumanFormatter)(clean)))
    root.setLevel(level)
    return log_format
