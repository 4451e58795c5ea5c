from __future__ import annotations

import math
import os
import re
import shutil
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest

import belated as bl
from belated.assumptions.checks.check import Check
from belated.assumptions.diagnosis import Diagnosis
from belated.base.errors import BelatedWarning, OptionError
from belated.base.files import write_whole
from belated.reports.narrative import answer, question
from belated.reports.report import REMARKS, Arrivals, Chosen, Report, render

HOSTILE = (
    "<script>window.pwned=1</script>",
    "quo\"te' & <img src=x onerror=window.pwned=1>",
    "two\nlines",
    "🎉",
    "שלום",
)
MATURE = 10


CHECKS = (
    Check("outcome and delay", "practice", "Delays do not depend on outcomes.", "green", "p = 0.41."),
    Check("largest weight", "A1, A4", "No row decides.", "amber", "One holds 7%.", "Use the t interval."),
    Check("drift", "practice", "Nothing changes.", "red", f"{HOSTILE[0]} changed.", f"Ask {HOSTILE[1]}."),
    Check("delay tail", "A2", "Delays are not too long.", "grey", "No outcome has come."),
)


def made(names=("A", "B"), means=(1.0, 2.0), rows=240, dates=False, seen=None, **changes):
    """Return a report of a small experiment: `seen` limits how many outcomes of an arm arrive."""
    rng = np.random.default_rng(1)
    count = len(names)
    code = rng.integers(count, size=rows)
    outcome = rng.normal(np.array(means)[code])
    delay = rng.integers(0, MATURE, size=rows).astype(float)
    delay[rng.random(rows) < 0.2] = math.inf
    for k, most in (seen or {}).items():
        delay[np.flatnonzero((code == k) & np.isfinite(delay))[most:]] = math.inf
    step = np.arange(rows)
    came = np.isfinite(delay) & (step + delay < rows)
    delay = np.where(came, delay, math.nan)
    times = {"assigned_at": step, "delay": delay}
    moments, delays = step[::20], np.arange(MATURE + 1)
    if dates:
        start, hour = np.datetime64("2026-01-05T00:00:00"), np.timedelta64(3600, "s")
        late = np.where(came, np.nan_to_num(delay) * hour, np.timedelta64("NaT"))
        times = {"assigned_at": start + step * hour, "delay": late}
        moments, delays = start + moments * hour, delays * hour
    propensity = np.full((rows, count), 1 / count)
    labels = [names[k] for k in code]
    log = bl.Log(labels, np.where(came, outcome, math.nan), propensity, arms=list(names), **times)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)
        estimate, comparison, trajectory = bl.estimate(log), bl.compare(log), bl.trajectory(log, at=12)
    share = np.array([[np.mean(delay[code == k] <= d) for d in range(MATURE + 1)] for k in range(count)])
    arrived = np.array([came[code == k].mean() for k in range(count)])
    baseline = names[0] if count > 1 else None
    parts = {
        "baseline": baseline,
        "contrasts": estimate.contrasts(baseline) if count > 1 else None,
        "comparison": comparison,
        "trajectory": trajectory,
        "arrivals": Arrivals(names, delays, share, arrived, np.zeros(count), 1 - arrived),
        "chosen": Chosen(names, moments, propensity[::20]),
        "within": "7 days",
        "outcome": "revenue",
        "diagnosis": Diagnosis("sent.parquet", rows, tuple(names), CHECKS),
        "how": (("source", "sent.parquet"),),
        "command": "belated report sent.parquet",
        "version": "0.1.0",
        "made": "2026-03-01",
    }
    return Report("Spring campaign", estimate, **{**parts, **changes})


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.said = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


# ---------------------------------------------------------------- words


def test_two_arms_that_differ():
    report = made()
    one = report.estimate.contrast("B", "A")
    assert one.low > 0
    (sentence,) = answer(report)
    assert sentence == (
        f"Mean revenue within 7 days is {one.estimate:.2f} higher with B than with A "
        f"(95% interval {one.low:.2f} to {one.high:.2f} higher, p < 0.0001)."
    )
    assert question(report) == "What is the mean revenue of A and B within 7 days of assignment, and do they differ?"


def test_a_difference_below_0_is_said_without_a_minus():
    report = made(means=(2.0, 1.0), within=None)
    (sentence,) = answer(report)
    near, far = map(float, re.search(r"interval (\S+) to (\S+) lower", sentence).groups())
    assert 0 < near < far
    assert sentence.startswith("Mean revenue is ")
    assert " lower with B than with A" in sentence


def test_two_arms_that_cannot_be_told_apart():
    report = made(means=(1.0, 1.0))
    one = report.estimate.contrast("B", "A")
    (sentence,) = answer(report)
    assert sentence.startswith(
        "B and A cannot be told apart: the difference in mean revenue within 7 days lies between"
    )
    assert f"{one.low:.2f} and {one.high:.2f} (B minus A, 95% interval, p = {one.p_value:.3f})" in sentence


def test_the_highest_arm_and_whether_that_is_certain():
    sure, unsure = made(tuple("ABC"), (1, 2, 6)), made(tuple("ABC"), (1, 5.8, 6))
    assert "is highest with C" in answer(sure)[0]
    assert "lies above every other arm, all compared at once at 95%." in answer(sure)[0]
    assert "That is not certain: it cannot be told apart from" in answer(unsure)[0]
    assert question(sure).endswith("of each of 3 arms within 7 days of assignment, and how do they differ from A?")


def test_differences_without_a_baseline():
    report = made(tuple("ABC"), (1, 1, 6))
    report = replace(report, baseline=None, contrasts=report.estimate.contrasts(simultaneous=True))
    said = " ".join(answer(report))
    assert "with C than with A" in said
    assert "with C than with B" in said
    assert "B and A cannot be told apart" not in said
    assert "These differences may be 0: B minus A from " in said
    assert "The intervals of all 3 differences hold together at 95%." in said


def test_many_arms_are_summed_up():
    names = tuple(f"v{k}" for k in range(20))
    report = made(names, [1.0] * 19 + [9.0], rows=1_000)
    said = answer(report)
    assert "is highest with v19" in said[0]
    assert any(s.endswith("arms cannot be told apart from v0.") for s in said)
    assert len(said) < 8


def test_arms_without_an_answer_are_named():
    report = made(tuple("ABCD"), (1, 2, 99, 1), seen={2: 1, 3: 0})
    said = answer(report)
    assert said[0].startswith("Among the arms with an interval, mean revenue within 7 days is highest with B")
    assert "C has an estimate, but no interval: only one of its outcomes has arrived." in said
    assert "D has no answer: none of its outcomes has arrived." in said
    nothing = made(("A", "B"), seen={0: 0, 1: 0})
    assert answer(nothing) == ["Each of A and B has no answer: none of its outcomes has arrived."]
    render(nothing)


def test_one_of_two_arms_has_an_answer():
    said = answer(made(seen={1: 0}))
    assert said[0].startswith("Among the arms with an interval, mean revenue within 7 days is highest with A: ")
    assert said[0].endswith("Nothing can be said about how certain that is.")
    assert said[1:] == ["B has no answer: none of its outcomes has arrived."]


def test_only_the_chosen_arms_propensities():
    rng = np.random.default_rng(1)
    log = bl.Log(["A", "B"] * 50, rng.normal(size=100), np.full(100, 0.5))
    estimate = bl.estimate(log, "dipw")
    html = render(Report("x", estimate, "A", estimate.contrasts("A"), comparison=bl.compare(log)))
    assert "ever comes" not in html
    assert REMARKS["dipw"] in html
    assert REMARKS["nh0"] not in html


def test_names_that_would_not_read_as_names_are_quoted():
    report = made(("a b", 'x"y'), (1, 5))
    assert 'with “x"y” than with “a b”' in answer(report)[0]
    assert "with arm 7 than with arm 3" in answer(made((3, 7), (1, 5)))[0]
    assert "with \u2068שלום\u2069 than" in answer(made(("A", "שלום"), (1, 5)))[0]


def test_further_questions_are_answered():
    report = made()
    asked = (report.estimate.policy({"A": 0.2, "B": 0.8}), report.estimate.contrast("B", "A").test(0.5, "greater"))
    said = answer(replace(report, asked=asked))
    assert said[1].startswith("0.2 A + 0.8 B: ")
    assert said[2].endswith("to ∞).")


def test_a_contrast_too_many_is_refused():
    report = made(tuple("ABC"), (1, 2, 3))
    with pytest.raises(OptionError, match="`contrasts` holds 2 answers; these arms make 3"):
        replace(report, baseline=None)


# ---------------------------------------------------------------- pages


def test_the_page_has_its_sections_in_order():
    report = made(warnings=("Few outcomes.",), notes=("12 outcomes were left out.",))
    html = render(replace(report, asked=(report.estimate.policy({"A": 0.5, "B": 0.5}),)))
    reader = read(html)
    ids = [attrs["id"] for tag, attrs in reader.tags if tag == "h2"]
    assert ids == ["warnings", "arms", "differences", "moved", "arrivals", "policy", "estimators", "checks", "how"]
    assert [tag for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)].count("h1") == 1
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("table") == tags.count("caption") == 5
    assert not {"script", "img", "iframe", "object"} & set(tags)
    said = " ".join(reader.said)
    for words in ("Few outcomes.", "12 outcomes were left out.", "green: nothing speaks against it", "a single look"):
        assert words in said
    for words in ("belated report sent.parquet", "belated 0.1.0", "2026-03-01", "daipw", *REMARKS.values()):
        assert words in said


def test_each_light_has_words_and_only_what_is_not_green_has_advice():
    reader = read(render(made()))
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
    assert "checks" not in [attrs.get("id") for _, attrs in read(render(made(diagnosis=None))).tags]


def test_the_page_asks_for_nothing():
    reader = read(render(made(dates=True)))
    links = [attrs.get(name) for _, attrs in reader.tags for name in ("src", "href") if attrs.get(name)]
    assert all(link.startswith(("#", "data:")) for link in links)
    policies = [attrs["content"] for _, attrs in reader.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_dates_are_dates_and_the_page_is_the_same_each_time():
    report = made(dates=True)
    html = render(report)
    assert "as of, 2026" in html
    assert "time since assignment, hours" in html
    assert html == render(report)


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_any_number_of_arms(count):
    names = tuple(f"arm {k}" for k in range(count))
    html = render(made(names, np.arange(count), rows=60 * count))
    assert html.count('role="img"') >= 4
    assert "nan" not in html.lower()


def test_a_long_table_is_folded():
    report = made(tuple(f"v{k}" for k in range(9)), range(9), rows=600)
    html = render(replace(report, baseline=None, contrasts=report.estimate.contrasts()))
    assert "All 36 rows as a table" in html
    assert "The 24 clearest of 36 are drawn." in html


def test_only_an_estimate_is_enough():
    report = made()
    assert "is highest with B" in answer(Report("x", report.estimate))[0]
    html = render(Report("x", report.estimate))
    ids = [attrs["id"] for tag, attrs in read(html).tags if tag == "h2"]
    assert ids == ["arms", "how"]
    unknown = Arrivals(("A", "B"), [0, 1], np.full((2, 2), math.nan), [0, 0], [1, 1], [0, 0])
    render(replace(report, arrivals=unknown, chosen=Chosen(("A", "B"), [1], [[0.5, 0.5]], probabilities=False)))


def test_hostile_names_are_text():
    report = made(HOSTILE, range(5))
    html = render(replace(report, title=HOSTILE[0], outcome=HOSTILE[1], within=HOSTILE[0], command=HOSTILE[1]))
    tags = {tag for tag, _ in read(html).tags}
    assert not {"script", "img", "b"} & tags
    assert len(render(made(("x" * 10_000, "y\x00")))) < 100_000
    render(made(("\ud800", "\ufffe"))).encode()


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
    report = made(names, range(len(names)), rows=80 * len(names), dates=len(names) == 2, warnings=(HOSTILE[1],))
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
