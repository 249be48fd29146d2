"""Names and messages that contain markup are shown as text on every screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from icepack.domain.actions import Compact
from icepack.domain.run import RunRecord, RunState
from icepack.domain.table import TableId
from icepack.store.backend import open_stores

from .sample_tables import observed, seed, with_sentence
from .server import Server

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>{{hit}}'
TABLE = TableId("lake", ("<b>team</b>",), HOSTILE)


@pytest.fixture(scope="module")
def hostile(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder, now = tmp_path_factory.mktemp("hostile"), datetime.now(UTC)
    url = f"sqlite:///{folder / 'state.db'}"
    seed(url, [with_sentence(observed(TABLE, 400, 9, now), f"Sentence {HOSTILE}")])
    stores = open_stores(url)
    run = RunRecord(
        job_id=uuid4(),
        table=TABLE,
        action=Compact(),
        state=RunState.FAILED,
        started_at=now,
        finished_at=now,
        message=f"Error {HOSTILE}",
    )
    stores.history.save(run)
    stores.close()
    server = Server(folder, {**lake_copy()[1], "state": {"url": url}})
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def assert_escaped(page: Page) -> None:
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main img, main script, main b b").count() == 0


def test_fleet_screen(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url)
    expect(page.locator(".unhealthy-name b")).to_contain_text("<img src=x onerror=")
    assert_escaped(page)


def test_tables_screen(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url, "#/tables")
    expect(page.locator("#row-0")).to_contain_text("<script>window.hit=1</script>")
    expect(page.get_by_label("Namespace")).to_contain_text("<b>team</b>")
    assert_escaped(page)


def test_table_screen(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url, f"#/tables/{quote(str(TABLE), safe='')}")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    for place in (".issues", ".recommendations", ".runs"):
        expect(page.locator(place)).to_contain_text("<img src=x onerror=")
    expect(page.locator(".runs")).to_contain_text("Error <img")
    expect(page.locator(".selected-partition")).to_contain_text("<img src=x")
    page.locator(".chart .flag rect").hover()
    expect(page.locator(".tooltip")).to_contain_text("<img src=x")
    expect(page.locator(".chart .flag")).to_contain_text("tag <img")
    assert_escaped(page)


def test_error_messages(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url, f"#/tables/{quote('nothing.' + HOSTILE, safe='')}")
    page.monitor.expected = ("404", "422")  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    assert_escaped(page)


def test_browser_refuses_other_markup(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url)
    page.monitor.expected = ("TrustedHTML", "Trusted Type")  # type: ignore[attr-defined]
    outcome = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return 'taken'; } catch (error) { return error.name; } }"
    )
    assert outcome == "TypeError"
