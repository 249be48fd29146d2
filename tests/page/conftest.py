"""Fixtures with a real lake, a real server and a real browser.

After every test, the console must be free of errors and no request may have gone to another host.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from .chromium import FLAGS, find_or_install
from .sample_jobs import write_sample_jobs
from .screen_checks import DESKTOP, PHONE
from .server import Server

# How long assertions wait for the page, generous because the machine may be busy.
TIMEOUT_MS = 30_000
expect.set_options(timeout=TIMEOUT_MS)

MAKE_LAKE = Path(__file__).parent / "make_lake.py"


@pytest.fixture(scope="session")
def made_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once for all test processes; ICEPACK_PAGE_LAKE=FOLDER keeps it in that folder for the next run."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = Path(os.environ.get("ICEPACK_PAGE_LAKE") or shared / "page-lake")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "settings.yaml").exists():
            subprocess.run([sys.executable, MAKE_LAKE, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def settings(made_lake: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((made_lake / "settings.yaml").read_text())
    return found


@pytest.fixture(scope="session")
def lake_copy(
    made_lake: Path, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], tuple[Path, dict[str, Any]]]:
    """The same lake with its own state database, so that tests do not see each other's jobs."""

    def copy() -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("page-state")
        for name in ("state.db", "state.db-wal"):
            if (made_lake / name).exists():
                shutil.copy(made_lake / name, folder / name)
        return folder, {**settings, "state": {"url": f"sqlite:///{folder / 'state.db'}"}}

    return copy


@pytest.fixture(scope="session")
def server(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Server]:
    """The API without authentication, reachable from this machine only."""
    serving = Server(*lake_copy())
    try:
        serving.wait()
        yield serving
    finally:
        serving.stop()


RULES = {
    "policy": {"windows": ["mon-fri 22:00-06:00", "sat,sun 00:00-24:00"], "daily_budget": 2.5},
    "policies": [{"match": "shop.*", "target_file_size": "256MB", "daily_compute": "2h"}],
    "tables": [
        {"name": "web.page_views", "schedule": "0 2 * * *", "options": {"target_file_size": "128MB"}},
        {"name": "iot.sensor_readings", "schedule": "*/30 * * * *"},
    ],
}


class BusyServer:
    """A server with a week of finished jobs, some running jobs and some queued jobs."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.state = settings["state"]["url"]
        self.jobs = write_sample_jobs(self.state)
        self.server = Server(folder, {**settings, **RULES})
        self.url = self.server.url


@pytest.fixture(scope="session")
def busy(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[BusyServer]:
    """For tests that only read."""
    yield from _serve(lake_copy)


@pytest.fixture(scope="session")
def writable(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[BusyServer]:
    """For tests that change something."""
    yield from _serve(lake_copy)


def _serve(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[BusyServer]:
    found = BusyServer(*lake_copy())
    try:
        found.server.wait()
        yield found
    finally:
        found.server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_or_install(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class PageMonitor:
    """Records console errors, requests and content security policies of a browser context."""

    def __init__(self, context: BrowserContext) -> None:
        self.errors: list[str] = []
        self.urls: list[str] = []
        self.policies: set[str] = set()
        # Parts of error messages that a test provokes on purpose, such as a refused request.
        self.expected: tuple[str, ...] = ()
        context.on("page", self._attach)

    def _attach(self, page: Page) -> None:
        page.on("console", lambda message: message.type in ("error", "warning") and self._record_error(message.text))
        page.on("pageerror", lambda error: self._record_error(str(error)))
        page.on("request", lambda request: self.urls.append(request.url))
        page.on("response", lambda response: self.policies.add(response.headers.get("content-security-policy", "")))

    def _record_error(self, text: str) -> None:
        self.errors.append(text)

    def check(self, origin: str) -> None:
        unexpected = [text for text in self.errors if not any(part in text for part in self.expected)]
        assert not unexpected
        assert [url for url in self.urls if not url.startswith((origin, "data:", "blob:"))] == []
        assert self.policies, "no response was seen"
        for policy in self.policies:
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page of a server, and checks its console, requests and content security policy afterwards."""
    opened: list[tuple[BrowserContext, PageMonitor, str]] = []

    def open_page(url: str, path: str = "#/", *, phone: bool = False, dark: bool = False, **more: Any) -> Page:
        context = browser.new_context(
            viewport=PHONE if phone else DESKTOP,
            is_mobile=phone,
            has_touch=phone,
            color_scheme="dark" if dark else "light",
            locale="en-US",
            timezone_id="Europe/Berlin",
            reduced_motion="reduce",
            **more,
        )
        monitor = PageMonitor(context)
        opened.append((context, monitor, url))
        page = context.new_page()
        page.monitor = monitor  # type: ignore[attr-defined]
        page.goto(f"{url}/{path}")
        return page

    try:
        yield open_page
        for _, monitor, url in opened:
            monitor.check(url)
    finally:
        for context, _, _ in opened:
            context.close()
