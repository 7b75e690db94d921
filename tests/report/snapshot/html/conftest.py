"""A real browser for the tests of the page: Debian's Chromium, driven over its own protocol."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """The browser: the one that OOMPH_CHROMIUM names, else what is installed."""
    named = os.environ.get("OOMPH_CHROMIUM")
    return named or next((found for found in map(shutil.which, _NAMES) if found), None)


@dataclass
class Opened:
    """A page that was opened: what it asked for, what it complained about, and the page itself."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def tip(self) -> str:
        """The text under the pointer; "" where there is none."""
        box = self.page.locator("#tip")
        return box.inner_text() if box.is_visible() else ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Started once a module, with a new empty profile. It keeps an event loop running, so no longer than needed.

    Only where there is none to start, its tests are skipped.
    """
    path = chromium()
    if path is None:
        pytest.skip("no Chromium or Chrome on this machine: install one, or name it in OOMPH_CHROMIUM")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("Playwright, which drives the browser, is not installed: it is part of the extra `test`")

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=_FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a page from its text, waits until it is drawn, and keeps everything that it did."""
    contexts = []

    def opened(text: str, *, ready: bool = True, **context_options: object) -> Opened:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **context_options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        result = Opened(page, path.as_uri())
        page.on("request", lambda request: result.requests.append(request.url))
        page.on("console", lambda message: result.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: result.complaints.append(str(error)))
        page.on("dialog", lambda dialog: result.complaints.append(f"dialog: {dialog.message}"))
        page.goto(result.url)
        if ready:
            page.wait_for_selector("html[data-ready]", timeout=30_000)
        return result

    yield opened
    for context in contexts:
        context.close()
