"""The page in Chromium with 10,000 cached tables: the duration of first views, and frame times while scrolling.

Server and browser run on the same machine, and each first view starts with an empty cache. Run it with `make bench`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from tests.page.chromium import FLAGS, find_or_install
from tests.page.sample_tables import many, seed
from tests.page.server import Server

TABLES = 10_000
VIEWS = 7
GOAL_MS = 1000.0
FRAME_GOAL_MS = 33.4
SIZE: ViewportSize = {"width": 1360, "height": 860}
SCREENS = {"Fleet": ("#/", ".lead"), "Tables": ("#/tables", ".rows-space .row:not(.is-empty)")}

# Returns the milliseconds from the start of the navigation until after the frame in which the element was painted.
WAIT_FOR = """
selector => new Promise(done => {
  const check = () => {
    const found = document.querySelector(selector);
    if (!found || !found.checkVisibility()) return requestAnimationFrame(check);
    requestAnimationFrame(() => setTimeout(() => done(performance.now())));
  };
  check();
})
"""
SCROLL = """
([step, frames]) => new Promise(done => {
  const grid = document.querySelector('.rows'), durations = [];
  let last = performance.now();
  const next = now => {
    durations.push(now - last);
    last = now;
    grid.scrollTop += step;
    if (durations.length <= frames) requestAnimationFrame(next); else done(durations.slice(1));
  };
  requestAnimationFrame(next);
})
"""


def measure_first_views(browser: Browser, url: str, path: str, selector: str) -> tuple[list[float], list[float]]:
    """Returns the duration of each view, and the CPU time of the page's thread."""
    durations, worked = [], []
    for _ in range(VIEWS):
        context = browser.new_context(viewport=SIZE)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(f"{url}/{path}", wait_until="commit")
        durations.append(float(page.evaluate(WAIT_FOR, selector)))
        metrics = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
        worked.append(metrics["TaskDuration"] * 1000)
        context.close()
    return sorted(durations), sorted(worked)


def frames(page: Page, step: int, count: int) -> list[float]:
    return sorted(page.evaluate(SCROLL, [step, count]))


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def measure_scrolling(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport=SIZE)
    page.goto(f"{url}/#/tables")
    page.locator("#row-0:not(.is-empty)").wait_for()
    for name, step, count in (("slow", 40, 240), ("fast", 400, 240), ("faster", 4000, 120)):
        page.evaluate("() => { document.querySelector('.rows').scrollTop = 0; }")
        durations = frames(page, step, count)
        late = sum(ms > FRAME_GOAL_MS for ms in durations) / len(durations)
        print(
            f"scroll {name:<8} {step:>5} px per frame: p50 {percentile(durations, 0.5):5.1f}  "
            f"p95 {percentile(durations, 0.95):5.1f}  "
            f"worst {durations[-1]:5.1f} ms; {late:.1%} of frames over {FRAME_GOAL_MS} ms"
        )
    jump = page.evaluate(
        """last => new Promise(done => {
          const grid = document.querySelector('.rows'), began = performance.now();
          grid.scrollTop = grid.scrollHeight;
          const check = () => document.querySelector(`#row-${last}:not(.is-empty)`)
            ? done(performance.now() - began) : requestAnimationFrame(check);
          check();
        })""",
        TABLES - 1,
    )
    print(f"jump from there to the last table: {jump:,.0f} ms")
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
                    durations, worked = measure_first_views(browser, server.url, path, selector)
                    print(
                        f"first view of {name:<7} median {statistics.median(durations):5.0f}  "
                        f"worst {durations[-1]:5.0f} ms "
                        f"(goal: under {GOAL_MS:.0f} ms); CPU of the page's thread {statistics.median(worked):.0f} ms",
                        flush=True,
                    )
                measure_scrolling(browser, server.url)
                browser.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
