"""A real Chromium for tests of pages, and what to look for in one."""

from __future__ import annotations

import os
import shutil

import pytest

#: Milliseconds that a browser may take for anything: machines may do other things meanwhile.
WAIT = 300_000


@pytest.fixture(scope="module")
def chromium():
    """
    Debian's Chromium, driven by playwright; without it, tests are skipped.

    It ends with its module: while it is open, playwright runs an event loop in this thread, and ``asyncio.run`` of the
    tests of another module would fail.
    """
    path = shutil.which("chromium")
    missing = None if path else "chromium is not installed"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "playwright is not installed"
    if missing:
        pytest.fail(missing) if os.environ.get("BELATED_ALL_ENGINES") else pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=WAIT)
        yield browser
        browser.close()


#: The colour behind a page.
BACKGROUND = "getComputedStyle(document.body).backgroundColor"

#: Texts of charts, and cells of tables, that lie outside of a page of a width.
OUTSIDE = """width => [...document.querySelectorAll('.chart text')]
    .map(t => [t.textContent, t.getBoundingClientRect()])
    .filter(([_, box]) => box.width && (box.left < 0 || box.right > width)).map(([text]) => text)"""
HIDDEN = """width => [...document.querySelectorAll('td, tbody th')]
    .map(cell => [cell.textContent, cell.getBoundingClientRect()])
    .filter(([_, box]) => box.width && (box.left < 0 || box.right > width)).map(([text]) => text)"""

#: The size in pixels of the smallest text of a chart.
SMALLEST = """() => Math.min(...[...document.querySelectorAll('.chart text')]
    .map(t => parseFloat(getComputedStyle(t).fontSize) * Math.abs(t.getScreenCTM().a)))"""
