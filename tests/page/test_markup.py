"""Names and sentences that are markup are shown as text, on every screen."""

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

from .seeding import observed, renamed, seed
from .server import Server

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>{{hit}}'
TABLE = TableId("lake", ("<b>team</b>",), HOSTILE)


@pytest.fixture(scope="module")
def hostile(
    lake_copy: Callable[[], tuple[Path, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder, now = tmp_path_factory.mktemp("hostile"), datetime.now(UTC)
    url = f"sqlite:///{folder / 'state.db'}"
    seed(url, [renamed(observed(TABLE, 400, 9, now), f"Sentence {HOSTILE}")])
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
        server.end()


def is_harmless(page: Page) -> None:
    assert page.evaluate("() => window.hit") is None
    assert page.locator("main img, main script, main b b").count() == 0


def test_on_the_fleet(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url)
    expect(page.locator(".sick-name b")).to_contain_text("<img src=x onerror=")
    is_harmless(page)


def test_in_the_list(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url, "#/tables")
    expect(page.locator("#row-0")).to_contain_text("<script>window.hit=1</script>")
    expect(page.get_by_label("Namespace")).to_contain_text("<b>team</b>")
    is_harmless(page)


def test_on_its_own_screen(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url, f"#/tables/{quote(str(TABLE), safe='')}")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    for place in (".reasons", ".advice", ".runs"):
        expect(page.locator(place)).to_contain_text("<img src=x onerror=")
    expect(page.locator(".runs")).to_contain_text("Error <img")
    expect(page.locator(".picked")).to_contain_text("<img src=x")
    page.locator(".chart .flag rect").hover()
    expect(page.locator(".tip")).to_contain_text("<img src=x")
    expect(page.locator(".chart .flag")).to_contain_text("tag <img")
    is_harmless(page)


def test_in_what_the_server_says_went_wrong(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url, f"#/tables/{quote('nothing.' + HOSTILE, safe='')}")
    page.watch.expected = ("404", "422")  # type: ignore[attr-defined]
    expect(page.get_by_role("alert")).to_contain_text("<img src=x")
    is_harmless(page)


def test_markup_from_anywhere_else_is_refused_by_the_browser(hostile: Server, visit: Callable[..., Page]) -> None:
    page = visit(hostile.url)
    page.watch.expected = ("TrustedHTML", "Trusted Type")  # type: ignore[attr-defined]
    said = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return 'taken'; } catch (error) { return error.name; } }"
    )
    assert said == "TypeError"
