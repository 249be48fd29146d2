"""Workflow: find the unhealthiest table, see why, fix it, see it healthy. With a real worker and Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from pyiceberg.catalog import load_catalog

from .screen_checks import take_screenshot
from .server import Server

FILES = 70
TIMEOUT_MS = 180_000


@pytest.fixture
def clicks(settings: dict[str, Any]) -> Iterator[Callable[[], list[Any]]]:
    """Creates the unhealthiest table of the lake; returns a function that reads its rows."""
    catalog = load_catalog("lake", **settings["catalogs"]["lake"])
    catalog.create_namespace_if_not_exists("workflow")
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = catalog.create_table(("workflow", "clicks"), schema)
    for number in range(FILES):
        table.append(pa.table({"id": [2 * number, 2 * number + 1], "v": ["a", "b"]}, schema=schema))

    def rows() -> list[Any]:
        found = catalog.load_table(("workflow", "clicks")).scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: row["id"])

    try:
        yield rows
    finally:
        catalog.drop_table(("workflow", "clicks"))
        catalog.drop_namespace("workflow")
        catalog.close()


@pytest.fixture
def up(clicks: Callable[[], list[Any]], lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Server]:
    folder, settings = lake_copy()
    parts = ("up", "--without", "scheduler", "--without", "orchestrator")
    serving = Server(folder, {**settings, "worker": {"poll": "200ms"}}, parts)
    try:
        serving.wait()
        yield serving
    finally:
        serving.stop()


def test_unhealthy_table_is_found_and_fixed(
    up: Server, clicks: Callable[[], list[Any]], visit: Callable[..., Page]
) -> None:
    before = clicks()
    page = visit(up.url)
    page.reload()
    worst = page.locator(".unhealthy li").first
    expect(worst).to_contain_text("lake.workflow.clicks", timeout=TIMEOUT_MS)

    worst.get_by_role("link").click()
    expect(page.get_by_role("heading", name="clicks", level=1)).to_be_focused()
    expect(page.locator(".issues")).to_contain_text(f"{FILES} of {FILES} data files are smaller than")
    expect(page.locator(".recommendations li").first).to_contain_text("Compact")
    expect(page.locator(".table-title .lead")).to_contain_text("to 100")

    page.get_by_role("button", name="Run now …").click()
    dialog = page.get_by_role("dialog", name="Run on clicks")
    expect(dialog).to_contain_text("Estimated duration")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".active-job").first).to_be_visible()
    take_screenshot(page, "table-running-desktop-light")

    expect(page.locator(".table-head .score-large span")).to_have_text("100", timeout=TIMEOUT_MS)
    expect(page.get_by_role("heading", name="No issues")).to_be_visible()
    expect(page.locator(".active-job").first).to_be_hidden(timeout=TIMEOUT_MS)
    compacted = page.locator(".runs li").filter(has_text="Compact").filter(has_text=f"files {FILES} → 1")
    expect(compacted).to_contain_text(re.compile(r"proof: no row changed \(140 rows\)"))
    expect(page.locator(".snapshot.by-icepack").first).to_be_attached()
    take_screenshot(page, "table-fixed-desktop-light")
    assert clicks() == before
