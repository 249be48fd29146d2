"""The YAML snippets in the documentation can be loaded, and give valid Spark settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icepack.config import build_catalog_properties, build_policy_rules, load_config
from icepack.engine.spark_conf import jar_purposes, spark_catalog_conf

from .pages import PAGES, fenced, name_of

_VARIABLE = re.compile(r"\$\{(\w+)\}")
NAMES = [name_of(page) for page in PAGES]
SNIPPETS = [(name, number, body) for name in NAMES for number, body in enumerate(fenced(name, "yaml"))]


@pytest.mark.parametrize(("page", "number", "body"), SNIPPETS)
def test_every_yaml_snippet_loads(page: str, number: int, body: str, tmp_path: Path) -> None:
    file = tmp_path / "icepack.yaml"
    file.write_text(body, encoding="utf-8")
    environ = {"HOME": str(tmp_path)} | dict.fromkeys(_VARIABLE.findall(body), "a-value")
    loaded = load_config(file, environ=environ, cwd=tmp_path)
    build_policy_rules(loaded.config)
    catalogs = build_catalog_properties(loaded.config)
    assert jar_purposes(catalogs) >= {"base"}
    for name, properties in catalogs.items():
        assert spark_catalog_conf(name, properties)[f"spark.sql.catalog.{name}.type"]


def test_readme_has_an_example_for_each_catalog_type() -> None:
    shown = "".join(body for page, _, body in SNIPPETS if page == "README.md")
    assert all(part in shown for part in ("uri: sqlite:", "type: rest", "type: glue", "uri: postgresql+psycopg:"))
