"""What every screen has to pass: axe finds nothing serious, and somebody can look at a picture of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize

HERE = Path(__file__).parent
AXE = (HERE / "vendor" / "axe-core-4.14.0.min.js").read_text()
DESKTOP: ViewportSize = {"width": 1360, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}
PICTURES = HERE.parents[1] / "build" / "page"


def check_looks(page: Page, name: str) -> None:
    """On a desk and on a phone, light and dark: nothing is cut off, axe is content, and there is a picture."""
    for look, size in (("desktop", DESKTOP), ("phone", PHONE)):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if look == "desktop" else "light")
        take_picture(page, f"{name}-{look}-{'dark' if look == 'desktop' else 'light'}")
        # Light on the desk and dark on the phone: every colour and every layout is looked at once.
        page.emulate_media(color_scheme="light" if look == "desktop" else "dark")
        take_picture(page, f"{name}-{look}-{'light' if look == 'desktop' else 'dark'}")
        assert overflows(page) <= 0, f"{look}: wider than the window"
        found = serious_findings(page)
        assert not found, f"{look}: {found}"


def serious_findings(page: Page) -> list[str]:
    page.evaluate(f"() => {{ {AXE} }}")
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{item['id']}: {item['help']}: {', '.join(str(node['target']) for node in item['nodes'][:4])}"
        for item in found["violations"]
        if item["impact"] in ("serious", "critical")
    ]


def take_picture(page: Page, name: str) -> None:
    """In a window as high as the page, so that what sticks to the window's edge is at the picture's, too."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size or DESKTOP
    height: int = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({**size, "height": max(height, size["height"])})
    page.screenshot(path=PICTURES / f"{name}.png")
    page.set_viewport_size(size)


def overflows(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    wide: int = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return wide


def text_of(page: Page, selector: str) -> str:
    return re.sub(r"\s+", " ", page.locator(selector).first.inner_text()).strip()
