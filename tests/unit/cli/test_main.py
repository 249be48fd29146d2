"""The frame around the commands: help, errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from icepack import __version__
from icepack.cli.main import COMMANDS, cli

from .conftest import Call

HEAVY = ("pydantic", "pyiceberg", "pyspark", "pyarrow", "sqlalchemy", "rich", "yaml")


def test_help_imports_nothing_heavy() -> None:
    probe = (
        "import sys; from icepack.cli.main import run_command, cli; run_command(cli, ['--help'], 'icepack');"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


def test_help_lists_every_command(call: Call) -> None:
    answer = call("--help")
    assert answer.code == 0
    assert all(name in answer.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(call: Call, name: str) -> None:
    answer = call(name, "--help")
    assert answer.code == 0
    assert "Usage: icepack" in answer.out


def test_version(call: Call) -> None:
    assert call("--version").out.strip() == f"icepack, version {__version__}"


def test_an_unknown_command_is_a_usage_error(call: Call) -> None:
    assert call("heal").code == 2


def test_without_a_lake_commands_name_demo_and_init(call: Call) -> None:
    answer = call("tables")
    assert answer.code == 2
    assert "icepack demo" in answer.err
    assert "icepack init" in answer.err
    assert "Traceback" not in answer.err


def test_a_mistake_in_the_configuration_names_file_and_line(call: Call, tmp_path: Path) -> None:
    (tmp_path / "icepack.yaml").write_text("catalogs: {}\npolicy:\n  target_file_size: big\n")
    answer = call("tables")
    assert answer.code == 2
    assert "icepack.yaml" in answer.err
    assert "3" in answer.err


def test_a_setting_without_a_value_is_refused(call: Call) -> None:
    assert call("--set", "spark.master", "tables").code == 2


def test_an_unexpected_error_is_one_sentence(call: Call, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icepack.cli.output.render.show_tables", lambda *_: 1 / 0)
    answer = call("tables")
    assert answer.code == 1
    assert "ZeroDivisionError" in answer.err
    assert "--verbose" in answer.err
    assert "Traceback" not in answer.err


def test_verbose_shows_the_stack_trace(call: Call) -> None:
    assert "Traceback" in call("--verbose", "tables").err


def test_ctrl_c_at_a_prompt_exits_with_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert call("tables").code == 130
