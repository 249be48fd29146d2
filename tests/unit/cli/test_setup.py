"""The config, init and doctor commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Call


def test_config_shows_the_merged_configuration_with_secrets_masked(call: Call, tmp_path: Path) -> None:
    (tmp_path / "icepack.yaml").write_text(
        "catalogs:\n  prod:\n    type: rest\n    uri: http://catalog:8181\n    credential: top-secret-words\n"
    )
    answer = call("config")
    assert "http://catalog:8181" in answer.out
    assert "top-secret-words" not in answer.out + answer.err
    assert call("config", "--format", "json").json["config"]["server"]["port"] == 8080


def test_config_check_says_whether_it_is_valid(call: Call, lake: Path, tmp_path: Path) -> None:
    assert "valid" in call("config", "check").out
    (tmp_path / "icepack.yaml").write_text("scheduler:\n  default_schedule: every day\n")
    answer = call("config", "check")
    assert answer.code == 2
    assert "default_schedule" in answer.err


def test_init_writes_a_file_that_loads_and_never_overwrites_one(call: Call, tmp_path: Path) -> None:
    assert call("init").code == 0
    assert call("config", "check").code == 0
    text = (tmp_path / "icepack.yaml").read_text()
    answer = call("init")
    assert answer.code == 2
    assert (tmp_path / "icepack.yaml").read_text() == text


def test_doctor_without_spark_checks_the_catalog_and_its_storage(
    call: Call, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icepack.engine.java.jars.JarStore.ensure", lambda self, purposes: [Path("kept/iceberg.jar")])
    answer = call("doctor", "--skip-spark")
    assert answer.code == 0
    assert "✓ catalog lake: reachable, 3 tables" in answer.out
    assert "✓ java: " in answer.out


def test_doctor_reports_that_there_is_no_lake_yet(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icepack.engine.java.jars.JarStore.ensure", lambda self, purposes: [Path("kept/iceberg.jar")])
    answer = call("doctor", "--skip-spark")
    assert answer.code == 1
    assert "✗ lake: There is no lake yet." in answer.out
    assert "`icepack demo`" in answer.out


def test_doctor_gives_a_remedy_for_what_is_wrong(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icepack.engine.java.jars.JarStore.ensure", lambda self, purposes: [Path("kept/iceberg.jar")])
    (tmp_path / "icepack.yaml").write_text(
        f"catalogs:\n  lost:\n    type: sql\n    uri: sqlite:///{tmp_path}/nowhere/c.db\n    warehouse: file:///x\n"
    )
    answer = call("doctor", "--skip-spark")
    assert answer.code == 1
    assert "✗ catalog lost" in answer.out
    assert "→" in answer.out
    found = {check["name"]: check for check in call("doctor", "--skip-spark", "--format", "json").json["checks"]}
    assert found["catalog lost"]["ok"] is False
