"""A small lake that PyIceberg builds without Spark, and a fixture that calls the command line in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icepack.cli.main import cli, run_command
from icepack.store.backend import Stores, open_stores


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., CommandResult]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirects the folders of the user, so that nothing of theirs is read or written."""
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ICEPACK_CONFIG", "CATALOG_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    from icepack.cli.console import console

    def invoke(*arguments: str) -> CommandResult:
        console.cache_clear()
        code = run_command(cli, list(arguments), prog_name="icepack")
        printed = capsys.readouterr()
        return CommandResult(code, printed.out, printed.err)

    return invoke


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two tables and an internal one; `sales.orders` has twelve small files."""
    folder = tmp_path / "lake"
    folder.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
    catalog.create_namespace("sales")
    catalog.create_namespace("ops")
    for name, commits in (("sales.orders", 12), ("sales.customers", 1), ("ops._log", 1)):
        table = catalog.create_table(name, rows.schema)
        for _ in range(commits):
            table.append(rows)
    (tmp_path / "icepack.yaml").write_text(
        f"catalogs:\n  lake:\n    type: sql\n    uri: sqlite:///{folder}/catalog.db\n"
        f"    warehouse: file://{folder}/warehouse\n"
    )
    return folder


@pytest.fixture
def stores(lake: Path, tmp_path: Path) -> Iterator[Stores]:
    """The state database that the commands use."""
    opened = open_stores(f"sqlite:///{tmp_path}/state/icepack/state.db")
    yield opened
    opened.close()
