"""The db commands."""

from __future__ import annotations

from pathlib import Path

from icepack.store.backend import Stores

from .conftest import Call


def test_upgrade_creates_the_database(call: Call, tmp_path: Path) -> None:
    assert call("db", "upgrade").code == 0
    assert (tmp_path / "state" / "icepack" / "state.db").is_file()


def test_prune_reports_what_was_deleted(call: Call, stores: Stores) -> None:
    call("jobs", "submit", "rewrite_manifests", "orders")
    call("jobs", "cancel", str(stores.jobs.list_jobs().jobs[0].id))
    assert call("db", "prune", "--jobs", "never", "--format", "json").json["pruned"]["jobs"] == 0
    assert call("db", "prune", "--jobs", "0s", "--format", "json").json["pruned"]["jobs"] == 1
    assert "jobs: 0 deleted" in call("db", "prune").out


def test_a_bad_age_is_a_usage_error(call: Call, stores: Stores) -> None:
    answer = call("db", "prune", "--runs", "soon")
    assert answer.code == 2
    assert "never" in answer.err
