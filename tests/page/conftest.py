"""A real lake, a real server, a real browser; and what holds for every test: a silent console, no foreign request."""

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
from .looks import DESKTOP, PHONE
from .server import Server
from .told_jobs import tell_jobs

PATIENCE_MS = 30_000
"""For whatever the page is expected to show: a busy machine is no defect of it."""
expect.set_options(timeout=PATIENCE_MS)

MAKE_LAKE = Path(__file__).parent / "make_lake.py"


@pytest.fixture(scope="session")
def made_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, however many processes test; with ICEPACK_PAGE_LAKE=FOLDER it is kept there for the next run."""
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
    """The same lake with a state of its own: jobs that one test asks for are not another's."""

    def copy() -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("page-state")
        for name in ("state.db", "state.db-wal"):
            if (made_lake / name).exists():
                shutil.copy(made_lake / name, folder / name)
        return folder, {**settings, "state": {"url": f"sqlite:///{folder / 'state.db'}"}}

    return copy


@pytest.fixture(scope="session")
def server(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Server]:
    """The API alone, open to this machine."""
    serving = Server(*lake_copy())
    try:
        serving.wait()
        yield serving
    finally:
        serving.end()


RULES = {
    "policy": {"windows": ["mon-fri 22:00-06:00", "sat,sun 00:00-24:00"], "daily_budget": 2.5},
    "policies": [{"match": "shop.*", "target_file_size": "256MB", "daily_compute": "2h"}],
    "tables": [
        {"name": "web.page_views", "schedule": "0 2 * * *", "options": {"target_file_size": "128MB"}},
        {"name": "iot.sensor_readings", "schedule": "*/30 * * * *"},
    ],
}


class Busy:
    """A server with a week of jobs behind it, some that run, and some that wait."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.state = settings["state"]["url"]
        self.jobs = tell_jobs(self.state)
        self.server = Server(folder, {**settings, **RULES})
        self.url = self.server.url


@pytest.fixture(scope="session")
def busy(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Busy]:
    """For who only looks."""
    yield from _serve(lake_copy)


@pytest.fixture(scope="session")
def touched(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Busy]:
    """For who changes something, and leaves the rest alone."""
    yield from _serve(lake_copy)


def _serve(lake_copy: Callable[[], tuple[Path, dict[str, Any]]]) -> Iterator[Busy]:
    found = Busy(*lake_copy())
    try:
        found.server.wait()
        yield found
    finally:
        found.server.end()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_or_install(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watch:
    """What a page did that it must not do."""

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        self.addresses: list[str] = []
        self.policies: set[str] = set()
        self.expected: tuple[str, ...] = ()
        """Parts of messages that the test itself brings about, as a refused request."""
        context.on("page", self._look_at)

    def _look_at(self, page: Page) -> None:
        page.on("console", lambda message: message.type in ("error", "warning") and self._complain(message.text))
        page.on("pageerror", lambda error: self._complain(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))
        page.on("response", lambda answer: self.policies.add(answer.headers.get("content-security-policy", "")))

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def check(self, origin: str) -> None:
        unexpected = [text for text in self.complaints if not any(part in text for part in self.expected)]
        assert not unexpected
        assert [url for url in self.addresses if not url.startswith((origin, "data:", "blob:"))] == []
        assert self.policies, "no answer was seen"
        for policy in self.policies:
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens the page of a server; afterwards its console, its requests and its policy are looked at."""
    opened: list[tuple[BrowserContext, Watch, str]] = []

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
        watch = Watch(context)
        opened.append((context, watch, url))
        page = context.new_page()
        page.watch = watch  # type: ignore[attr-defined]
        page.goto(f"{url}/{path}")
        return page

    try:
        yield open_page
        for _, watch, url in opened:
            watch.check(url)
    finally:
        for context, _, _ in opened:
            context.close()
