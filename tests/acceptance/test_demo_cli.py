"""The first steps of a new user: the demo, the reading commands, a second run, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

ICEPACK = [sys.executable, "-c", "from icepack.cli.main import main; main()"]


def environment(folder: Path) -> dict[str, str]:
    """Redirects the user's folders, except the cache, which holds the jars."""
    own = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
    return {**os.environ, **own}


def icepack(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ICEPACK, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    done = icepack(folder, "demo", "--dir", "lake", "--scale", "0.2")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def answer(folder: Path, *arguments: str) -> Any:
    done = icepack(folder, "--config", "lake/icepack.yaml", *arguments, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_demo_shows_before_and_after_and_the_next_steps(demo: tuple[Path, str]) -> None:
    _, printed = demo
    assert "Before" in printed
    assert "→" in printed
    assert "Next steps" in printed
    assert "✗" not in printed


def test_every_score_is_90_or_more_afterwards(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    scores = {item["table"]: item["health"]["score"] for item in answer(folder, "health")["tables"]}
    assert len(scores) >= 7
    assert min(scores.values()) >= 90, scores


def test_a_second_maintain_finds_nothing_to_do(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    nothing = {"plan": [], "steps": [], "tables": [], "errors": [], "silent_catalogs": {}}
    assert answer(folder, "maintain", "--all") == nothing


def test_the_history_has_every_run_with_its_proof(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    runs = answer(folder, "history", "--limit", "100")["runs"]
    committed = [run for run in runs if run["commits"]]
    assert committed
    assert all(run["state"] == "succeeded" for run in runs)
    assert all(proof["rows_before"] == proof["rows_after"] for run in committed for proof in run["proofs"])
    assert all(run["proofs"] for run in committed)


def test_the_demo_refuses_a_folder_that_is_not_a_demo_lake(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    other = folder / "precious"
    other.mkdir(exist_ok=True)
    (other / "thesis.txt").write_text("years of work")
    refused = icepack(folder, "demo", "--dir", "precious")
    assert refused.returncode == 2
    assert (other / "thesis.txt").read_text() == "years of work"


def test_iceberg_compact_runs_as_the_cronjob_calls_it(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    table = answer(folder, "tables")["tables"][0]
    command = [sys.executable, "-c", "from icepack.cli.iceberg_compact import main; main()"]
    uri = f"sqlite:///{folder / 'lake' / 'catalog.db'}"
    flags = ["--catalog-uri", uri, "--catalog-name", "lake", "--table", table["name"], "--strategy", "small-files"]
    done = subprocess.run(
        [*command, *flags],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compact" in done.stdout


@pytest.mark.parametrize("engine", ["native", "spark"])
def test_the_requested_engine_runs_the_compaction(demo: tuple[Path, str], engine: str) -> None:
    folder, _ = demo
    command = ("run", "compact", "web.page_views", "--rewrite-all", "--engine", engine, "--format", "json")
    done = icepack(folder, "--config", "lake/icepack.yaml", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "arning" not in done.stderr
    run = json.loads(done.stdout)["run"]
    assert run["commits"]
    assert bool((run["details"] or {}).get("native_groups")) == (engine == "native"), run["details"]


def test_commits_of_both_engines_are_verified_by_value(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    for engine in ("native", "spark"):
        command = ("run", "compact", "app.sessions", "--rewrite-all", "--engine", engine, "--proof", "full")
        done = icepack(folder, "--config", "lake/icepack.yaml", *command)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rows counted in all, values compared in" in done.stdout
    found = answer(folder, "verify", "app.sessions")["comparisons"]
    assert len(found) >= 2
    assert all(each["equal"] and each["rows_before"] == each["rows_after"] > 0 for each in found), found


def test_ctrl_c_leaves_the_table_untouched_or_complete(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    table = answer(folder, "tables")["tables"][0]["table"]
    before = answer(folder, "inspect", table)["status"]
    run = subprocess.Popen(
        [*ICEPACK, "--config", "lake/icepack.yaml", "run", "compact", table, "--rewrite-all"],
        cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_until_running(folder)
    run.send_signal(signal.SIGINT)
    _, stderr = run.communicate(timeout=300)
    after = answer(folder, "inspect", table)["status"]
    last = answer(folder, "history", table, "--limit", "1")["runs"][0]
    assert "Stopping" in stderr
    assert after["data"]["records"] == before["data"]["records"]
    if last["state"] == "cancelled":
        assert run.returncode == 130
        assert after["snapshot_id"] == before["snapshot_id"]
    else:
        assert last["state"] == "succeeded"
        assert last["commits"] == [after["snapshot_id"]]


def _wait_until_running(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if answer(folder, "history", "--state", "running")["runs"]:
            return
        time.sleep(0.2)
    raise AssertionError("the run never started")
