"""Builds the demo lake: a few tables in one folder, most of which need maintenance."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from pyiceberg.catalog import load_catalog

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import PolarisDiscovery
from icepack.config.folders import LAKE, EmbeddedLake
from icepack.demo.sample_rows import RandomData
from icepack.demo.scenarios import BuildContext
from icepack.demo.tables import TABLES
from icepack.domain.ports.engine import QueryEngine
from icepack.domain.table import TableId
from icepack.errors import UsageError

MARKER = "DEMO-LAKE.txt"
_MARKER_TEXT = "`icepack demo` created this lake. When it runs again, it replaces everything in this folder.\n"
_OTHER_FOLDER_HINT = "Choose another folder with --dir."


def _ignore(_: str) -> None:
    """Discards progress reports."""


def build_lake(
    lake: EmbeddedLake,
    *,
    scale: float,
    query: Callable[[], QueryEngine],
    now: datetime,
    report: Callable[[str], None] = _ignore,
) -> list[TableId]:
    """Builds the demo lake from scratch; Spark, which `query` starts, updates some tables while others are written."""
    _prepare_folder(lake)
    catalog = load_catalog(LAKE, **lake.properties)
    context = BuildContext(catalog=catalog, now=now, scale=scale)
    for namespace in {table.id.namespace for table in TABLES}:
        catalog.create_namespace(namespace)
    with ThreadPoolExecutor(1) as pool:
        engine = pool.submit(query)
        updates = []
        for seed, table in enumerate(TABLES):
            report(f"{table.name}: {table.problem}")
            table.build(context, table.name, RandomData(seed))
            updates += [pool.submit(lambda sql: engine.result().execute(sql), sql) for sql in table.updates]
        for update in updates:
            update.result()
    catalog.close()
    return sorted(table.id for table in TABLES)


def _prepare_folder(lake: EmbeddedLake) -> None:
    """Creates an empty folder with a marker file; only a folder that has the marker is ever cleared."""
    folder = lake.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MARKER).is_file():
            _refuse_foreign_tables(lake)
            _clear_folder(folder)
        elif any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty and not a demo lake.", _OTHER_FOLDER_HINT)
        (folder / MARKER).write_text(_MARKER_TEXT)
    except OSError as exc:
        raise UsageError(f"Cannot create the demo lake in {folder}: {exc.strerror}.", _OTHER_FOLDER_HINT) from exc


def _refuse_foreign_tables(lake: EmbeddedLake) -> None:
    """Refuses to replace a lake in which a user has created other tables."""
    if not lake.exists:
        return
    found = PolarisDiscovery(Catalogs({LAKE: lake.properties})).tables()
    foreign = [table.short for table in found if table not in {demo.id for demo in TABLES}]
    if foreign:
        raise UsageError(f"The demo lake in {lake.folder} also contains {', '.join(foreign)}.", _OTHER_FOLDER_HINT)


def _clear_folder(folder: Path) -> None:
    """Keeps the marker file, so that an interrupted removal can be resumed."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARKER:
            entry.unlink()
