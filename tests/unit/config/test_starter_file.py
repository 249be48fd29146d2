"""`icepack init`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from icepack.config import build_catalog_properties, load_config, write_starter_file
from icepack.errors import ConfigError

PYICEBERG = """
catalog:
  Prod:
    uri: http://rest:8181
    Token: hunter2
    s3.secret-access-key: hunter2
    odd: a${b}
    nested: {ignored: x}
  sql:
    uri: postgresql://u:hunter2@h/d
"""
NOTHING: Mapping[str, str] = {}


@pytest.fixture
def init(cwd, home):
    def write(environ=NOTHING, path="icepack.yaml"):
        return write_starter_file(cwd / path, environ=environ, cwd=cwd, home=home)

    return write


def load_back(cwd, home, environ=NOTHING):
    return load_config(environ={"HOME": str(home), **environ}, cwd=cwd)


def test_without_any_source_it_writes_the_embedded_lake(init, cwd, home):
    message = init()
    assert str(cwd / "icepack.yaml") in message
    assert "icepack demo" in message
    loaded = load_back(cwd, home)
    assert loaded.source == cwd / "icepack.yaml"
    assert loaded.embedded
    assert not loaded.lake_exists


def test_it_copies_the_catalogs_of_pyiceberg_without_their_secrets(init, cwd, home):
    (home / ".pyiceberg.yaml").write_text(PYICEBERG)
    message = init()
    text = (cwd / "icepack.yaml").read_text()
    variables = {
        "PYICEBERG_CATALOG__PROD__TOKEN": "t",
        "PYICEBERG_CATALOG__PROD__S3__SECRET_ACCESS_KEY": "k",
        "PYICEBERG_CATALOG__SQL__URI": "postgresql://u:p@h/d",
    }
    assert "hunter2" not in text
    assert "hunter2" not in message
    assert f"Set {', '.join(variables)} before you use it." in message
    assert str(home / ".pyiceberg.yaml") in message
    assert f"# Secrets are not copied; set {', '.join(variables)}." in text
    assert build_catalog_properties(load_back(cwd, home, variables).config) == {
        "prod": {"uri": "http://rest:8181", "token": "t", "s3.secret-access-key": "k", "odd": "a${b}"},
        "sql": {"uri": "postgresql://u:p@h/d"},
    }


def test_the_variables_of_pyiceberg_override_its_file(init, cwd, home):
    (home / ".pyiceberg.yaml").write_text(PYICEBERG)
    environ = {
        "PYICEBERG_CATALOG__PROD__URI": "http://other",
        "PYICEBERG_CATALOG__MY_LAKE__S3__REGION": "eu",
        "PYICEBERG_CATALOG__PROD__TOKEN": "hunter2",
        "PYICEBERG_CATALOG__EMPTY__URI": "",
        "PYICEBERG_MAX_WORKERS": "4",
    }
    message = init(environ)
    assert "PYICEBERG_CATALOG__PROD__TOKEN" not in message
    assert "the environment" in message
    text = (cwd / "icepack.yaml").read_text()
    assert "uri: http://other" in text
    assert "token: ${PYICEBERG_CATALOG__PROD__TOKEN}" in text
    assert "my-lake:\n    s3.region: eu" in text
    assert "empty" not in text


def test_variables_alone_are_enough(init, cwd, home):
    environ = {"PYICEBERG_CATALOG__DEFAULT__URI": "http://c"}
    assert init(environ).endswith("with default from the environment.")
    assert load_back(cwd, home).config.catalogs == {"default": {"uri": "http://c"}}


def test_files_are_looked_up_as_pyiceberg_does(init, cwd, home, tmp_path):
    first = tmp_path / "first"
    first.mkdir()
    (first / ".pyiceberg.yaml").write_text("catalog: {first: {uri: a}}")
    (home / ".pyiceberg.yaml").write_text("# nothing\n")
    (cwd / ".pyiceberg.yaml").write_text("catalog: {last: {uri: a}}")
    assert "with first from" in init({"PYICEBERG_HOME": str(first)}, "one.yaml")
    assert "with last from" in init({}, "two.yaml")


def test_a_pyiceberg_file_without_catalogs_is_ignored(init, cwd):
    (cwd / ".pyiceberg.yaml").write_text("downcast-ns-timestamp-to-us-on-write: true\ncatalog: text")
    assert "embedded lake" in init()


def test_it_never_overwrites(init, cwd):
    (cwd / "icepack.yaml").write_text("mine")
    with pytest.raises(ConfigError, match=r"icepack.yaml already exists; remove it first, or choose another name"):
        init()
    assert (cwd / "icepack.yaml").read_text() == "mine"


def test_it_creates_the_folder_and_reports_when_it_cannot(init, cwd):
    init(path="new/folder/icepack.yaml")
    assert (cwd / "new/folder/icepack.yaml").is_file()
    (cwd / "file").write_text("")
    for path in ("file/icepack.yaml", "file/below/icepack.yaml"):
        with pytest.raises(ConfigError, match=r"cannot be written \(.*\); choose another location"):
            init(path=path)
