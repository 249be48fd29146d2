"""Workflow: find the job that failed, see why, restore_file the table, retry the job. With a real worker and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from pyiceberg.catalog import load_catalog

from .screen_checks import take_screenshot
from .server import Server

FILES = 12
TIMEOUT_MS = 180_000


class BrokenTable:
    """A table with a missing data file that can be restored."""

    def __init__(self, table: Any) -> None:
        self._table = table
        files = table.inspect.files().to_pylist()
        self._file = Path(files[0]["file_path"].removeprefix("file://"))
        self._moved = self._file.with_suffix(".moved")

    @property
    def file(self) -> str:
        return self._file.name

    def remove_file(self) -> None:
        self._file.rename(self._moved)

    def restore_file(self) -> None:
        self._moved.rename(self._file)

    def ids(self) -> list[int]:
        return sorted(self._table.refresh().scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def broken(settings: dict[str, Any]) -> Iterator[BrokenTable]:
    catalog = load_catalog("lake", **settings["catalogs"]["lake"])
    catalog.create_namespace_if_not_exists("night")
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = catalog.create_table(("night", "events"), schema)
    for number in range(FILES):
        table.append(pa.table({"id": [2 * number, 2 * number + 1], "v": ["a", "b"]}, schema=schema))
    found = BrokenTable(table)
    found.remove_file()
    try:
        yield found
    finally:
        catalog.drop_table(("night", "events"))
        catalog.drop_namespace("night")
        catalog.close()


@pytest.fixture
def up(broken: BrokenTable, lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Server]:
    folder, settings = lake_copy()
    parts = ("up", "--without", "scheduler", "--without", "orchestrator")
    once = {"worker": {"poll": "200ms", "max_attempts": 1}, "retry": {"max_attempts": 1}}
    serving = Server(folder, {**settings, **once}, parts)
    try:
        serving.wait()
        yield serving
    finally:
        serving.stop()


def submit_compaction(up: Server) -> bool:
    """Submits a compaction; returns False until health sync has found the table."""
    request = Request(f"{up.url}/api/v1/tables/lake.night.events/actions/compact", b"{}", method="POST")
    request.add_header("Content-Type", "application/json")
    try:
        with urlopen(request) as response:
            return bool(response.status == 202)
    except OSError:
        return False


def test_failed_job_is_found_and_retried(up: Server, broken: BrokenTable, visit: Callable[..., Page]) -> None:
    up.wait_until(lambda: submit_compaction(up), "The table")
    page = visit(up.url, "#/jobs")
    expect(page.locator(".lead")).to_contain_text("1 job failed", timeout=TIMEOUT_MS)

    page.locator(".lead").get_by_role("link", name="1 job failed").click()
    row = page.locator(".joblist li")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("lake.night.events")
    row.get_by_role("link").click()

    alert = page.locator(".alert")
    expect(alert).to_contain_text(broken.file)
    expect(alert).to_contain_text("Failed during execution")
    expect(alert).to_contain_text("Nothing was committed, so the table is unchanged.")
    expect(page.locator(".phase.is-failed")).to_have_count(1)
    take_screenshot(page, "workflow-failed-desktop-light")

    broken.restore_file()
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("h1 .tag")).to_have_text("Succeeded", timeout=TIMEOUT_MS)
    expect(page.locator(".changes tr").filter(has_text="Data files")).to_contain_text(str(FILES))
    expect(page.locator(".proof")).to_contain_text(f"Proof: {2 * FILES} rows before and after")
    expect(page.locator(".phase[data-phase=commit]")).to_have_count(1)
    take_screenshot(page, "workflow-retried-desktop-light")
    assert broken.ids() == list(range(2 * FILES))
