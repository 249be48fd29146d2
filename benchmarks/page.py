"""The page in real Chromium with 10,000 cached tables: how long a first view takes, and how scrolling feels.

Server and browser share the machine, and each first view begins with an empty cache. Run it with `make bench`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from tests.page.chromium import FLAGS, find_or_install
from tests.page.seeding import many, seed
from tests.page.server import Server

TABLES = 10_000
VIEWS = 7
GOAL_MS = 1000.0
FRAME_GOAL_MS = 33.4
SIZE = {"width": 1360, "height": 860}
SCREENS = {"Fleet": ("#/", ".lead"), "Tables": ("#/tables", ".rows-space .row:not(.is-empty)")}

WAIT_FOR = """
selector => new Promise(done => {
  const look = () => {
    const found = document.querySelector(selector);
    if (!found || !found.checkVisibility()) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  };
  look();
})
"""
"""Milliseconds from the start of the navigation until after the frame in which it was painted."""
SCROLL = """
([step, frames]) => new Promise(done => {
  const grid = document.querySelector('.rows'), took = [];
  let last = performance.now();
  const next = now => {
    took.push(now - last);
    last = now;
    grid.scrollTop += step;
    if (took.length <= frames) requestAnimationFrame(next); else done(took.slice(1));
  };
  requestAnimationFrame(next);
})
"""


def first_views(browser: Browser, url: str, path: str, selector: str) -> tuple[list[float], list[float]]:
    """How long each took, and how long the page's own thread worked for it."""
    took, worked = [], []
    for _ in range(VIEWS):
        context = browser.new_context(viewport=SIZE)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"{url}/{path}", wait_until="commit")
        took.append(float(page.evaluate(WAIT_FOR, selector)))
        metrics = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
        worked.append(metrics["TaskDuration"] * 1000)
        context.close()
    return sorted(took), sorted(worked)


def frames(page: Page, step: int, count: int) -> list[float]:
    return sorted(page.evaluate(SCROLL, [step, count]))


def at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def measure_scrolling(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport=SIZE)
    page.goto(f"{url}/#/tables")
    page.locator("#row-0:not(.is-empty)").wait_for()
    for name, step, count in (("slowly", 40, 240), ("fast", 400, 240), ("wildly", 4000, 120)):
        page.evaluate("() => { document.querySelector('.rows').scrollTop = 0; }")
        took = frames(page, step, count)
        late = sum(ms > FRAME_GOAL_MS for ms in took) / len(took)
        print(
            f"scroll {name:<8} {step:>5} px a frame: p50 {at(took, 0.5):5.1f}  p95 {at(took, 0.95):5.1f}  "
            f"worst {took[-1]:5.1f} ms; {late:.1%} of frames over {FRAME_GOAL_MS} ms"
        )
    jump = page.evaluate(
        """last => new Promise(done => {
          const grid = document.querySelector('.rows'), began = performance.now();
          grid.scrollTop = grid.scrollHeight;
          const look = () => document.querySelector(`#row-${last}:not(.is-empty)`)
            ? done(performance.now() - began) : requestAnimationFrame(look);
          look();
        })""",
        TABLES - 1,
    )
    print(f"from where that ended to the very last table: {jump:,.0f} ms")
    page.close()


def settings(folder: str) -> dict[str, Any]:
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder}
    return {"catalogs": {"lake": catalog}, "state": {"url": f"sqlite:///{folder}/state.db"}}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(f"the page: filling {TABLES:,} tables …", flush=True)
        seed(settings(folder)["state"]["url"], many(TABLES))
        server = Server(Path(folder), settings(folder))
        try:
            server.wait()
            print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start", flush=True)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=find_or_install(), args=list(FLAGS))
                for name, (path, selector) in SCREENS.items():
                    took, worked = first_views(browser, server.url, path, selector)
                    print(
                        f"first view of {name:<7} median {statistics.median(took):5.0f}  worst {took[-1]:5.0f} ms "
                        f"(goal: under {GOAL_MS:.0f} ms); the page's thread worked {statistics.median(worked):.0f} ms",
                        flush=True,
                    )
                measure_scrolling(browser, server.url)
                browser.close()
        finally:
            server.end()


if __name__ == "__main__":
    main()
