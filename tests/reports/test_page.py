"""The page: what `bl.report` and `belated analyze --report` write."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from reports.samples import CHECKS, HOSTILE, changed, experiment, read_page, sample_report

import belated as bl
from belated.base.files import write_whole
from belated.reports.page import render


def test_each_light_has_words_and_only_what_is_not_green_has_advice():
    reader = read_page(render(sample_report()))
    said = " ".join(reader.said)
    verdicts = (
        "Green.",
        "1 green: nothing speaks against it",
        "Amber: look at this.",
        "Red: does not hold.",
        "Grey: the log cannot",
    )
    for words in (*verdicts, "1 red: does not hold", "Conditions A1, A4 of the paper.", "Use the t interval."):
        assert words in said
    assert f"{HOSTILE[0]} changed." in said
    assert said.index("Nothing changes.") < said.index("No row decides.") < said.index("Delays do not depend")
    signs = [attrs for _, attrs in reader.tags if attrs.get("class", "").startswith("light ")]
    assert [attrs["aria-hidden"] for attrs in signs] == ["true"] * len(CHECKS)
    assert "checks" not in [attrs.get("id") for _, attrs in read_page(render(sample_report(diagnosis=None))).tags]


def test_the_page_asks_for_nothing():
    reader = read_page(render(sample_report(dates=True)))
    links = [attrs.get(name) for _, attrs in reader.tags for name in ("src", "href") if attrs.get(name)]
    assert all(link.startswith(("#", "data:")) for link in links)
    policies = [attrs["content"] for _, attrs in reader.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_dates_are_dates_and_the_page_is_the_same_each_time():
    report = sample_report(dates=True)
    html = render(report)
    assert "as of, 2026" in html
    assert "time since assignment, hours" in html
    assert html == render(report)


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_any_number_of_arms(count):
    names = tuple(f"arm {k}" for k in range(count))
    html = render(sample_report(names, np.arange(count), rows=60 * count))
    assert html.count('role="img"') >= 4
    assert "nan" not in html.lower()


def test_hostile_names_are_text():
    report = sample_report(HOSTILE, range(5))
    html = render(replace(report, title=HOSTILE[0], outcome=HOSTILE[1], within=HOSTILE[0], command=HOSTILE[1]))
    tags = {tag for tag, _ in read_page(html).tags}
    assert not {"script", "img", "b"} & tags
    assert len(render(sample_report(("x" * 10_000, "y\x00")))) < 100_000
    render(sample_report(("\ud800", "\ufffe"))).encode()


def test_the_section_of_a_report(tmp_path):
    html = bl.report(experiment(), tmp_path / "r.html").read_text()
    section = html[html.index("What was assumed, and") : html.index("How it was computed")]
    assert section.count("Green.") == 12
    assert "12 green: nothing speaks against it" in section
    assert "Within arms, mean outcomes do not change over time (p = " in section
    assert "Condition A2 of the paper." in section
    assert "To do" not in section


def test_a_report_says_what_does_not_hold_and_what_to_do(tmp_path):
    log = experiment(6000)
    html = bl.report(changed(log, log.outcome + np.arange(6000) / 6000), tmp_path / "r.html").read_text()
    section = html[html.index("What was assumed, and") : html.index("How it was computed")]
    assert "Red: does not hold." in section
    assert "Within arms, mean outcomes change over time (p &lt; 0.0001)." in section
    assert "Compare arms over a stretch in which nothing changed" in section


def test_a_report_shows_the_band_for_every_look(tmp_path):
    log = experiment(3000, means=(0.0, 1.0), delays=bl.delays.geometric(5))
    html = bl.report(log, tmp_path / "r.html").read_text()
    section = html[html.index("If you look more than once") : html.index("When outcomes arrive")]
    sequence = bl.sequence(log)
    contrast = sequence.contrast(1, 0)
    assert f"It first left out 0 as of {contrast.excluded_at} (always-valid p &lt; 0.0001)." in section
    assert "95% asymptotic confidence sequence" in section
    assert all(f">{band}<" in section for band in ("for one look", "for every look"))
    early = bl.report(log.at(40), tmp_path / "r.html").read_text()
    assert "Nothing can be said yet: Arm " in early[early.index("If you look more than once") :]


# ---------------------------------------------------------------- a real browser


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium")
    missing = None if path else "chromium is not installed"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "playwright is not installed"
    if missing:
        pytest.fail(missing) if os.environ.get("BELATED_ALL_ENGINES") else pytest.skip(missing)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.parametrize("names", [("A", "B"), HOSTILE, tuple(f"a_rather_long_name_{k:02}" for k in range(20))])
def test_in_a_browser(browser, tmp_path, names):
    count = len(names)
    report = sample_report(names, range(count), rows=80 * count, dates=count == 2, warnings=(HOSTILE[1],))
    file = write_whole(tmp_path / "report.html", render(replace(report, title=" ".join(names[:2]))))
    context = browser.new_context()
    try:
        page = context.new_page()
        trouble, requests = [], []
        page.on("console", lambda m: trouble.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("requestfailed", lambda request: trouble.append(request.url))
        page.on("request", lambda request: requests.append(request.url))
        for scheme, width in product(("light", "dark"), (360, 1200)):
            page.emulate_media(media="screen", color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate("typeof window.pwned") == "undefined"
            assert (page.evaluate(_BACKGROUND) == "rgb(255, 255, 255)") == (scheme == "light")
            # no text of a chart leaves the page, and none is smaller than can be read
            assert page.evaluate(_OUTSIDE, width) == []
            assert page.evaluate(_SMALLEST) >= 12
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(_BACKGROUND) == "rgb(255, 255, 255)"
        assert page.pdf().startswith(b"%PDF")
        assert trouble == []
        assert set(requests) == {file.as_uri()}
    finally:
        context.close()


_BACKGROUND = "getComputedStyle(document.body).backgroundColor"
_OUTSIDE = """width => [...document.querySelectorAll('.chart text')]
    .map(t => [t.textContent, t.getBoundingClientRect()])
    .filter(([_, box]) => box.width && (box.left < 0 || box.right > width)).map(([text]) => text)"""
_SMALLEST = """() => Math.min(...[...document.querySelectorAll('.chart text')]
    .map(t => parseFloat(getComputedStyle(t).fontSize) * Math.abs(t.getScreenCTM().a)))"""
