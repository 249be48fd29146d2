from __future__ import annotations

from pathlib import Path

import pytest

from icepack.config import CompactionConfig, load_config, user_folder
from icepack.errors import ConfigError

FILE = "spark: {master: from-file}"


def test_each_source_overrides_the_one_before(load):
    assert load().config.spark.master == "local[*]"
    assert load(FILE).config.spark.master == "from-file"
    variables = {"ICEPACK_SPARK__MASTER": "from-variable"}
    assert load(FILE, variables).config.spark.master == "from-variable"
    flags = {"spark": {"master": "from-flag"}}
    assert load(FILE, variables, flags).config.spark.master == "from-flag"


def test_sources_are_merged_key_by_key(load):
    loaded = load(
        "spark: {master: m, driver_memory: 4g, conf: {a: 1}}",
        {"ICEPACK_SPARK__CONF": '{"b": 2}'},
        {"spark": {"conf": {"c": 3}}},
    )
    assert loaded.config.spark.driver_memory == "4g"
    assert loaded.config.spark.conf == {"a": "1", "b": "2", "c": "3"}


def test_flags_that_were_not_given_change_nothing(load):
    flags = {"spark": {"master": None}, "catalog": {"uri": None}, "server": None}
    assert load(FILE, overrides=flags).config.spark.master == "from-file"
    assert load(FILE, overrides=flags).embedded


def test_the_named_file_overrides_every_other(cwd, home, load):
    (cwd / "icepack.yaml").write_text("server: {port: 1}")
    (cwd / "named.yaml").write_text("server: {port: 2}")
    (cwd / "variable.yaml").write_text("server: {port: 3}")
    environ = {"HOME": str(home), "ICEPACK_CONFIG": "variable.yaml"}
    by_flag = load_config(Path("named.yaml"), environ=environ, cwd=cwd)
    assert (by_flag.config.server.port, by_flag.source) == (2, cwd / "named.yaml")
    assert load_config(environ=environ, cwd=cwd).config.server.port == 3
    assert load_config(environ={"HOME": str(home)}, cwd=cwd).source == cwd / "icepack.yaml"


def test_the_users_configuration_folder_comes_last(cwd, home):
    folder = home / ".config" / "icepack"
    folder.mkdir(parents=True)
    (folder / "icepack.yaml").write_text("server: {port: 4}")
    loaded = load_config(environ={"HOME": str(home)}, cwd=cwd)
    assert (loaded.config.server.port, loaded.source) == (4, folder / "icepack.yaml")


@pytest.mark.parametrize(
    ("path", "variable", "hint"),
    [(Path("gone.yaml"), "", "icepack init"), (None, "gone.yaml", "the variable ICEPACK_CONFIG")],
)
def test_a_named_file_that_is_missing_is_an_error(cwd, home, path, variable, hint):
    with pytest.raises(ConfigError, match=r"no configuration file .*gone.yaml; ") as caught:
        load_config(path, environ={"HOME": str(home), "ICEPACK_CONFIG": variable}, cwd=cwd)
    assert hint in str(caught.value)


def test_without_any_catalog_the_embedded_lake_is_used(load, home):
    loaded = load()
    lake = home / ".local/share/icepack/lake"
    assert loaded.embedded
    assert loaded.source is None
    assert loaded.config.catalogs == {
        "lake": {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    }
    assert loaded.config.catalogs["lake"]["uri"].startswith("sqlite:////")


def test_the_embedded_lake_exists_once_its_catalog_does(load):
    loaded = load()
    assert loaded.lake is not None
    assert not loaded.lake_exists
    loaded.lake.folder.mkdir(parents=True)
    loaded.lake.database.touch()
    assert loaded.lake_exists


def test_a_configured_catalog_replaces_the_embedded_lake(load):
    for loaded in (
        load("catalogs: {prod: {uri: http://c}}"),
        load(environ={"ICEPACK_CATALOG__URI": "http://c"}),
        load("catalog:", overrides={"catalog": {"uri": "http://c"}}),
    ):
        assert not loaded.embedded
        assert loaded.lake_exists
        assert "lake" not in loaded.config.catalogs


def test_a_file_without_catalogs_still_has_the_embedded_lake(load):
    assert load("server: {port: 1}").embedded


def test_the_state_database_is_in_the_users_state_folder_by_default(load, home):
    assert load().config.state.url == f"sqlite:///{home}/.local/state/icepack/state.db"
    assert load("state: {url: postgresql://h/d}").config.state.url == "postgresql://h/d"


def test_only_the_given_environment_is_read(load, monkeypatch, cwd):
    monkeypatch.setenv("ICEPACK_SERVER__PORT", "1")
    monkeypatch.setenv("ICEPACK_CONFIG", "gone.yaml")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    monkeypatch.setenv("HOST_FROM_OUTSIDE", "x")
    loaded = load("server: {host: '${HOST_FROM_OUTSIDE:-inside}'}")
    assert (loaded.config.server.host, loaded.config.server.port) == ("inside", 8080)
    assert "/elsewhere" not in str(loaded.config.state.url)
    assert CompactionConfig().server.port == 8080


def test_user_folders_follow_xdg_then_home_then_the_platform(home, monkeypatch):
    assert user_folder("data", {"XDG_DATA_HOME": "/x", "HOME": str(home)}) == Path("/x/icepack")
    assert user_folder("data", {"XDG_DATA_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/share/icepack")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/platform")
    assert user_folder("config", {}) == Path("/platform/icepack")


def test_the_configuration_cannot_be_changed(load):
    config = load().config
    with pytest.raises(Exception, match="frozen"):
        config.server = config.server


def test_importing_the_configuration_imports_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys, icepack.config; print({m.split('.')[0] for m in sys.modules} & {'pyiceberg','pyspark','pyarrow'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
