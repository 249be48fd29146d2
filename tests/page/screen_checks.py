"""Checks that every screen has to pass: no serious axe violations and no overflow; also takes screenshots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize

HERE = Path(__file__).parent
AXE = (HERE / "vendor" / "axe-core-4.14.0.min.js").read_text()
DESKTOP: ViewportSize = {"width": 1360, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}
SCREENSHOTS = HERE.parents[1] / "build" / "page"


def check_screen(page: Page, name: str) -> None:
    """Checks the screen on a desktop and a phone, light and dark, and takes a screenshot of each combination."""
    for device, size in (("desktop", DESKTOP), ("phone", PHONE)):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if device == "desktop" else "light")
        take_screenshot(page, f"{name}-{device}-{'dark' if device == 'desktop' else 'light'}")
        # axe runs on the light desktop and the dark phone, so that both themes and both layouts are checked once.
        page.emulate_media(color_scheme="light" if device == "desktop" else "dark")
        take_screenshot(page, f"{name}-{device}-{'light' if device == 'desktop' else 'dark'}")
        assert overflow_pixels(page) <= 0, f"{device}: the page is wider than the window"
        found = serious_violations(page)
        assert not found, f"{device}: {found}"


def serious_violations(page: Page) -> list[str]:
    page.evaluate(f"() => {{ {AXE} }}")
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{item['id']}: {item['help']}: {', '.join(str(node['target']) for node in item['nodes'][:4])}"
        for item in found["violations"]
        if item["impact"] in ("serious", "critical")
    ]


def take_screenshot(page: Page, name: str) -> None:
    """Enlarges the window to the height of the page, so that elements fixed to its edges are in the right place."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size or DESKTOP
    height: int = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({**size, "height": max(height, size["height"])})
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    page.set_viewport_size(size)


def overflow_pixels(page: Page) -> int:
    """How many pixels wider the page is than the window."""
    pixels: int = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return pixels


def text_of(page: Page, selector: str) -> str:
    return re.sub(r"\s+", " ", page.locator(selector).first.inner_text()).strip()
