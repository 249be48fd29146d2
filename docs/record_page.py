"""Takes the screenshots for the README: `.venv/bin/python docs/record_page.py FOLDER`, where FOLDER keeps the lake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.page.chromium import FLAGS, find_or_install  # noqa: E402
from tests.page.server import Server  # noqa: E402

SIZE = {"width": 1360, "height": 920}
PICTURES = {
    "page-fleet.png": ("#/", ".unhealthy .score", "light"),
    "page-table.png": ("#/tables/lake.iot.sensor_readings", ".chart .snapshot", "dark"),
}


def take_screenshot(browser: Browser, url: str, name: str) -> None:
    path, complete, scheme = PICTURES[name]
    context = browser.new_context(viewport=SIZE, color_scheme=scheme, locale="en-US", timezone_id="Europe/Berlin")  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/{path}")
    page.locator(complete).first.wait_for()
    page.locator(".live[data-state=live]").wait_for()
    page.screenshot(path=ROOT / "docs" / "pictures" / name)
    context.close()


def main(folder: Path) -> None:
    if not (folder / "settings.yaml").exists():
        subprocess.run([sys.executable, ROOT / "tests" / "page" / "make_lake.py", folder], check=True)
    server = Server(folder, yaml.safe_load((folder / "settings.yaml").read_text()))
    try:
        server.wait()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_or_install(), args=list(FLAGS))
            for name in PICTURES:
                take_screenshot(browser, server.url, name)
            browser.close()
    finally:
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
