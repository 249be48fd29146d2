"""The demo lake: a few tables in one folder, most of them in need of care."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from pyiceberg.catalog import load_catalog

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import CatalogDiscovery
from icepack.config.folders import LAKE, EmbeddedLake
from icepack.demo.sample_rows import Dice
from icepack.demo.scenarios import Scene
from icepack.demo.tables import TABLES
from icepack.domain.ports.engine import QueryEngine
from icepack.domain.table import TableId
from icepack.errors import UsageError

MARKER = "DEMO-LAKE.txt"
_MARKER_TEXT = "`icepack demo` made this lake and replaces it, with all that is in this folder, when it runs again.\n"
_ELSEWHERE = "Name another folder with --dir."


def _silent(_: str) -> None:
    """For callers with nobody to tell."""


def build_lake(
    lake: EmbeddedLake,
    *,
    scale: float,
    query: Callable[[], QueryEngine],
    now: datetime,
    tell: Callable[[str], None] = _silent,
) -> list[TableId]:
    """The demo lake, built anew; Spark, which `query` starts, updates some tables while others are written."""
    _make_room(lake)
    catalog = load_catalog(LAKE, **lake.properties)
    scene = Scene(catalog=catalog, now=now, scale=scale)
    for namespace in {table.id.namespace for table in TABLES}:
        catalog.create_namespace(namespace)
    with ThreadPoolExecutor(1) as pool:
        engine = pool.submit(query)
        updates = []
        for seed, table in enumerate(TABLES):
            tell(f"{table.name}: {table.ailment}")
            table.build(scene, table.name, Dice(seed))
            updates += [pool.submit(lambda sql: engine.result().execute(sql), sql) for sql in table.updates]
        for update in updates:
            update.result()
    catalog.close()
    return sorted(table.id for table in TABLES)


def _make_room(lake: EmbeddedLake) -> None:
    """An empty folder that is marked as a demo lake; only what bears the mark is ever emptied."""
    folder = lake.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MARKER).is_file():
            _refuse_foreign_tables(lake)
            _empty(folder)
        elif any(folder.iterdir()):
            raise UsageError(f"{folder} holds something that is not a demo lake.", _ELSEWHERE)
        (folder / MARKER).write_text(_MARKER_TEXT)
    except OSError as exc:
        raise UsageError(f"{folder} cannot hold the demo lake: {exc.strerror}.", _ELSEWHERE) from exc


def _refuse_foreign_tables(lake: EmbeddedLake) -> None:
    """A lake in which somebody has made tables since is not only a demo any more."""
    if not lake.exists:
        return
    found = CatalogDiscovery(Catalogs({LAKE: lake.properties})).tables()
    foreign = [table.short for table in found if table not in {demo.id for demo in TABLES}]
    if foreign:
        raise UsageError(f"The demo lake in {lake.folder} also holds {', '.join(foreign)}.", _ELSEWHERE)


def _empty(folder: Path) -> None:
    """The mark stays until the end, so that an interrupted removal can be taken up again."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARKER:
            entry.unlink()
