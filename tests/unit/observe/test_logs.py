"""Logs of a service are machine-readable and contain no secret."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icepack.config import load_config
from icepack.logs import LogFormat, StderrHandler, configure_logging
from icepack.tracing import log_context
from icepack.wiring import build_redactor

log = logging.getLogger("icepack.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Resets loggers as in a new process: commands and migrations in other tests may have changed their levels."""
    root = logging.getLogger()
    level, disabled = root.level, logging.root.manager.disable
    logging.disable(logging.NOTSET)
    for logger in (log, logging.getLogger("icepack")):
        monkeypatch.setattr(logger, "disabled", False)
        monkeypatch.setattr(logger, "propagate", True)
        monkeypatch.setattr(logger, "level", logging.NOTSET)
        logger.manager._clear_cache()
    yield
    root.setLevel(level)
    logging.disable(disabled)
    for handler in [handler for handler in root.handlers if isinstance(handler, StderrHandler)]:
        root.removeHandler(handler)


Captured = pytest.CaptureFixture[str]


def _lines(capsys: Captured) -> list[dict[str, Any]]:
    """Returns the lines of this file's own logger: threads of other tests may log as well."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [line for line in lines if line["logger"] == log.name]


def test_a_line_contains_the_log_context(capsys: Captured) -> None:
    configure_logging(LogFormat.JSON, level=logging.INFO, clean=str)
    with log_context(job_id="j", table='lake."naïve 雪"', trace_id="t"):
        log.info("attempt %d\nof many", 2)
    log.info("idle")
    first, second = _lines(capsys)
    assert first | {"at": ""} == {
        "at": "", "level": "info", "logger": "icepack.test", "message": "attempt 2\nof many",
        "job_id": "j", "table": 'lake."naïve 雪"', "trace_id": "t",
    }  # fmt: skip
    assert first["at"].endswith("+00:00")
    assert "job_id" not in second


def test_an_exception_is_part_of_its_line(capsys: Captured) -> None:
    configure_logging(LogFormat.JSON, level=logging.INFO, clean=lambda text: text.replace("hunter2", "***"))
    try:
        raise ValueError("hunter2 is wrong")
    except ValueError:
        log.exception("it failed with %s", "hunter2")
    (line,) = _lines(capsys)
    assert line["message"] == "it failed with ***"
    assert "ValueError: *** is wrong" in line["exception"]
    assert "hunter2" not in json.dumps(line)


def test_the_human_format_is_a_plain_line(capsys: Captured) -> None:
    configure_logging(LogFormat.HUMAN, level=logging.INFO, clean=str)
    with log_context(job_id="j"):
        log.warning("stopping")
    assert capsys.readouterr().err == "WARNING stopping\n"


def test_auto_is_human_on_a_terminal_and_json_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert configure_logging(LogFormat.AUTO, level=logging.INFO, clean=str) is LogFormat.HUMAN
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert configure_logging(LogFormat.AUTO, level=logging.INFO, clean=str) is LogFormat.JSON


def test_configuring_again_does_not_duplicate_lines(capsys: Captured) -> None:
    configure_logging(LogFormat.HUMAN, level=logging.INFO, clean=str)
    configure_logging(LogFormat.JSON, level=logging.INFO, clean=str)
    log.info("once")
    assert len(_lines(capsys)) == 1


def test_every_secret_of_the_configuration_is_masked(tmp_path: Path) -> None:
    file = tmp_path / "icepack.yaml"
    file.write_text("""
catalogs:
  lake: {type: rest, uri: "https://user:in-the-uri@host", s3.secret-access-key: of-the-store, token: of-the-catalog}
state:
  url: postgresql://icepack:of%20the%20state@db/icepack
spark:
  conf: {spark.hadoop.fs.s3a.secret.key: "${VAULT_PASSWORD}"}
""")
    environ = {"HOME": str(tmp_path), "VAULT_PASSWORD": "of-the-vault"}
    clean = build_redactor(load_config(file, environ=environ, cwd=tmp_path))
    text = (
        "of-the-store of-the-catalog of-the-vault 'of the state' of%20the%20state "
        "https://user:in-the-uri@host password=typed-by-hand"
    )
    left = clean(text)
    for secret in ("of-the-", "of the state", "of%20the", "in-the-uri", "typed-by-hand"):
        assert secret not in left
