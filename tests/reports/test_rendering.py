"""The page: what `bl.report` and `belated analyze --report` write."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import unescape
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browsers import BACKGROUND, HIDDEN, OUTSIDE, SMALLEST, WAIT
from commands import invoke
from reports.samples import (
    CHECKS,
    HOSTILE,
    changed,
    experiment,
    many_arms,
    read_page,
    read_table,
    sample_report,
    write_table,
)

import belated as bl
from belated.base.files import write_whole
from belated.base.tables import Column
from belated.estimation.estimators import ESTIMATORS, SIDE_BY_SIDE
from belated.reports.analysis import Questions, analyse
from belated.reports.gather import gather
from belated.reports.rendering import render


def test_each_light_has_words_and_only_what_is_not_green_has_advice():
    reader = read_page(render(sample_report()))
    said = " ".join(reader.said)
    verdicts = (
        "Green.",
        "1 green: no problem found",
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
    section = html[html.index("Assumptions, and") : html.index("How it was computed")]
    assert section.count("Green.") == 14
    assert "14 green: no problem found" in section
    assert "Within arms, mean outcomes do not change over time (p = " in section
    assert "Condition A2 of the paper." in section
    assert "To do" not in section


def test_a_report_says_what_does_not_hold_and_what_to_do(tmp_path):
    log = experiment(6000)
    html = bl.report(changed(log, log.outcome + np.arange(6000) / 6000), tmp_path / "r.html").read_text()
    section = html[html.index("Assumptions, and") : html.index("How it was computed")]
    assert "Red: does not hold." in section
    assert "Within arms, mean outcomes change over time (p &lt; 0.0001)." in section
    assert "Compare arms over a period in which nothing changed" in section


def test_a_report_shows_the_band_for_every_look(tmp_path):
    log = experiment(3000, means=(0.0, 1.0), delays=bl.delays.geometric(5))
    html = bl.report(log, tmp_path / "r.html").read_text()
    section = html[html.index("If you look more than once") : html.index("When outcomes arrive")]
    sequence = bl.sequence(log)
    contrast = sequence.contrast(1, 0)
    assert f"It first excluded 0 as of {contrast.excluded_at} (always-valid p &lt; 0.0001)." in section
    assert "95% asymptotic confidence sequence" in section
    assert all(f">{band}<" in section for band in ("for one look", "for every look"))
    early = bl.report(log.at(40), tmp_path / "r.html").read_text()
    assert "There is no interval yet: Arm " in early[early.index("If you look more than once") :]


def test_what_a_sequence_left_out_is_said_when_it_says_nothing_now(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.normal(np.arange(400) % 2, 0.5)
    y[-2] = 1e6
    log = bl.Log(np.where(np.arange(400) % 2, "B", "A"), y, np.full(400, 0.5))
    html = unescape(bl.report(log, tmp_path / "r.html").read_text())
    part = html[html.index("If you look more than once") :]
    assert "There is no interval now: A few outcomes make up most of the variance of arm" in part
    assert "It first excluded 0 as of" in part


# ---------------------------------------------------------------- the command and the library


def by_command(path, folder, *arguments):
    """Return the page that the command writes, without what says that it did."""
    done = invoke(["analyze", str(path), "--report", str(folder / "command.html"), *arguments])
    assert done.exit_code == 0, done.stderr
    return undated((folder / "command.html").read_text())


def undated(html):
    html = re.sub(r'<p class="soft">This command makes.*?</pre>', "", html, flags=re.DOTALL)
    return re.sub(r"<dt>made</dt><dd>.*?</dd>", "", html)


@pytest.fixture(scope="module")
def ten_arms():
    return many_arms()


@pytest.fixture(scope="module")
def table(ten_arms, tmp_path_factory):
    return write_table(ten_arms, tmp_path_factory.mktemp("tables") / "log.parquet")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (
            ("--contrast", "J-I", "--policy", "greedy", "--simultaneous", "--lift"),
            {"contrasts": [("J", "I")], "policies": ["greedy"], "simultaneous": True, "lift": True},
        ),
        (
            ("--baseline", "C", "--contrast", "J-I", "--policy", "A=0.2,B=0.8", "--level", "0.9", "--title", "Ten"),
            {
                "baseline": "C",
                "contrasts": [("J", "I")],
                "policies": [{"A": 0.2, "B": 0.8}],
                "level": 0.9,
                "title": "Ten",
            },
        ),
        (("--interval", "normal", "--estimator", "dipw"), {"interval": "normal", "estimator": "dipw"}),
        (("--estimator", "all"), {"estimator": "all"}),
    ],
)
def test_the_command_and_the_library_write_the_same_page(table, tmp_path, arguments, options):
    page = undated(bl.report(bl.read(table), tmp_path / "r.html", **options).read_text())
    assert by_command(table, tmp_path, *arguments).split() == page.split()


def test_policies_by_segment_are_those_of_the_command(tmp_path):
    rng = np.random.default_rng(4)
    arm, country = rng.choice(["A", "B"], 400), rng.choice(["DE", "FR"], 400)
    columns = {"arm": arm, "outcome": rng.normal(size=400), "p_A": np.full(400, 0.5), "p_B": np.full(400, 0.5)}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns | {"country": country}), path)
    page = bl.report(
        bl.read(path, segment="country"), tmp_path / "r.html", policies=[{"DE": "B", "FR": {"A": 0.5, "B": 0.5}}]
    ).read_text()
    by_segment = ("--segment", "country", "--policy", "DE:B;FR:A=0.5,B=0.5", "--by-segment")
    assert by_command(path, tmp_path, *by_segment).split() == undated(page).split()


def test_a_contrast_that_was_asked_for_is_shown_however_many_arms_there_are(ten_arms, tmp_path):
    html = bl.report(ten_arms, tmp_path / "r.html", contrasts=[("J", "I"), ("B", "A")]).read_text()
    assert [row[0] for row in read_table(html, "The differences in numbers")] == list("BCDEFGHIJ")
    assert [row[0] for row in read_table(html, "The same in numbers")] == ["J - I", "B - A"]
    assert "<li>J - I: " in html
    three = bl.report(experiment(means=(0, 1, 2)), tmp_path / "r.html", contrasts=[(0, 2)]).read_text()
    assert [row[0] for row in read_table(three, "The same in numbers")] == ["0 - 2"]


@pytest.mark.parametrize("interval", ["normal", "t"])
def test_the_interval_reaches_the_estimators_side_by_side(ten_arms, table, tmp_path, interval):
    for html in (
        bl.report(ten_arms, tmp_path / "r.html", interval=interval).read_text(),
        by_command(table, tmp_path, "--interval", interval),
    ):
        rows = read_table(html, "The estimators in numbers")
        assert len(rows) == 7
        assert {row[-1] for row in rows} == {interval}


def test_an_interval_that_some_estimators_lack(tmp_path):
    html = bl.report(experiment(), tmp_path / "r.html", interval="score").read_text()
    assert {row[0]: row[-1] for row in read_table(html, "The estimators in numbers")} == {
        name: "score" if ESTIMATORS[name].normalisation == "hajek" else "t" for name in SIDE_BY_SIDE
    }


def test_a_log_of_what_only_happens_is_refused(tmp_path):
    outcome = np.where(np.arange(400) % 7 == 0, 1.0, math.nan)
    log = bl.Log(np.arange(400) % 2, outcome, np.full((400, 2), 0.5))
    with pytest.raises(bl.LogError, match="Every outcome that has arrived is 1"):
        bl.report(log, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_what_looks_like_a_mistake_and_what_is_doubtful_stands_on_the_page(tmp_path):
    rng = np.random.default_rng(2)
    rows = 4_000
    p = rng.uniform(0.1, 0.9, rows)
    y = rng.normal(size=rows)
    delay = rng.geometric(1 / (20 + 60 * (y > 0))) - 1.0
    chosen = (rng.random(rows) < p).astype(int)
    swapped = bl.Log(chosen, y, np.column_stack([p, 1 - p]), delay=delay, as_of=rows)
    html = bl.report(swapped, tmp_path / "r.html").read_text()
    loud = unescape(html[html.index('id="warnings"') : html.index("<nav")])
    for words in (*swapped.doubts(), *swapped.oddities()):
        assert words in loud
    assert "depends on its value" in loud
    assert "do not agree with the logged probabilities" in loud


def test_labels_that_are_not_text_reach_the_page(tmp_path):
    names = (("blue", 1), ("blue", 2), ("red", 1))
    log = many_arms(names)
    html = bl.report(log, tmp_path / "r.html", baseline=names[1], contrasts=[(names[2], names[0])],
                     policies=[{names[0]: 0.5, names[2]: 0.5}]).read_text()  # fmt: skip
    assert [row[0] for row in read_table(html, "The arms in numbers")] == [str(name) for name in names]
    assert [row[0] for row in read_table(html, "The differences in numbers")] == [str(names[0]), str(names[2])]
    further = [row[0] for row in read_table(html, "The same in numbers")]
    assert further == [f"{names[2]} - {names[0]}", f"0.5 {names[0]} + 0.5 {names[2]}"]
    assert "memory, summed by the compiled kernel" in html


@pytest.mark.parametrize("options", [(), ("--simultaneous",)])
def test_every_number_of_the_tables_is_that_of_the_analysis(ten_arms, table, tmp_path, options):
    arguments = ["--contrast", "J-I", "--baseline", "B", "--policy", "A=0.5,C=0.5", "--policy", "greedy", *options]
    html = by_command(table, tmp_path, *arguments)
    done = invoke(["analyze", str(table), "--format", "json", *arguments])
    (answers,) = json.loads(done.stdout)["answers"]
    contrasts = {(one["arm"], one["baseline"]): one for one in answers["contrasts"]}

    def shown(answer, *, test=False):
        numbers = [answer[name] for name in ("estimate", "std_error", "low", "high")]
        texts = Column("", numbers, "estimate", [answer["std_error"]] * 4).texts()
        return [*texts, *Column("", [answer["p_value"]], "p_value").texts()] if test else texts

    for row, arm in zip(read_table(html, "The arms in numbers"), answers["arms"], strict=True):
        counts = [f"{arm[name]:,.0f}" for name in ("assigned", "arrived")]
        size = f"{arm['effective_size']:,.0f}"
        assert row == [arm["arm"], *shown(arm), *counts, size]
    rows = read_table(html, "The differences in numbers")
    assert [row[0] for row in rows] == list("ACDEFGHIJ")
    for row in rows:
        assert row[1:] == shown(contrasts[row[0], "B"], test=True)
    asked, policy, greedy = read_table(html, "The same in numbers")
    assert asked[1:-1] == shown(contrasts["J", "I"], test=True)
    for row, answer in zip((policy, greedy), answers["policies"], strict=True):
        assert row[1:-1] == shown(answer, test=True)


def test_the_lifts_of_the_page_are_those_of_the_analysis(ten_arms, tmp_path):
    questions = Questions(baseline="J", contrasts=(("I", "H"),), policies=("greedy",), lift=True, simultaneous=True)
    analysis = analyse(ten_arms, questions)
    html = render(gather(analysis))
    lifts = {answer.name: answer.lift.words for answer in analysis.contrasts.answers}
    assert any("no bounds" not in words for words in lifts.values())
    for row in read_table(html, "The differences in numbers"):
        assert row[-1] == lifts[f"{row[0]} - J"]
    asked, greedy = read_table(html, "The same in numbers")
    assert (asked[-2], greedy[-2]) == (lifts["I - H"], "–")
    assert "A lift is the difference in percent of the size of the second arm" in html


def test_the_page_says_which_comparisons_are_adjusted(ten_arms, tmp_path):
    alone = bl.report(ten_arms, tmp_path / "r.html").read_text()
    joint = bl.report(ten_arms, tmp_path / "r.html", simultaneous=True).read_text()
    assert "95% intervals, each by itself." in alone
    assert "intervals holds by itself; none is adjusted for the others." in alone
    assert "It is one of 9 differences, and is not adjusted for the others" in alone
    assert "95% intervals that hold together." in joint
    assert "The intervals of all 9 differences hold together at 95%." in joint
    assert "The sequences of all 9 differences hold together." in joint
    assert "not adjusted for the 9 differences" in joint  # the estimators side by side
    two = bl.report(experiment(), tmp_path / "r.html").read_text()
    assert not any(words in two for words in ("by itself", "hold together"))


def test_a_question_that_cannot_be_writes_nothing(ten_arms, tmp_path):
    for options in ({"baseline": "Z"}, {"contrasts": [("A", "A")]}, {"contrasts": ["AB", "B-A"]},
                    {"policies": [{"A": 2.0}]}, {"interval": "skewed"}, {"level": 95}):  # fmt: skip
        with pytest.raises((bl.OptionError, bl.UnknownArmError)):
            bl.report(ten_arms, tmp_path / "r.html", **options)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- a real browser


@pytest.mark.parametrize("names", [("A", "B"), HOSTILE, tuple(f"a_rather_long_name_{k:02}" for k in range(20))])
def test_in_a_browser(chromium, tmp_path, names):
    count = len(names)
    report = sample_report(names, range(count), rows=80 * count, dates=count == 2, warnings=(HOSTILE[1],))
    file = write_whole(tmp_path / "report.html", render(replace(report, title=" ".join(names[:2]))))
    context = chromium.new_context()
    try:
        context.set_default_timeout(WAIT)
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
            assert (page.evaluate(BACKGROUND) == "rgb(255, 255, 255)") == (scheme == "light")
            # no text of a chart leaves the page, and none is smaller than can be read
            assert page.evaluate(OUTSIDE, width) == []
            assert page.evaluate(SMALLEST) >= 12
            assert page.evaluate(HIDDEN, width) == []
        page.set_viewport_size({"width": 680, "height": 900})  # A4 without its margins
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(HIDDEN, 680) == []
        assert page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
        assert page.pdf().startswith(b"%PDF")
        assert trouble == []
        assert set(requests) == {file.as_uri()}
    finally:
        context.close()


def test_a_report_is_never_written_over_the_log(tmp_path):
    path = write_table(experiment(200), tmp_path / "log.parquet")
    before, source = path.read_bytes(), bl.read(path)
    for log in (source, source.at(100), source.capped(9.0)):
        with pytest.raises(bl.OptionError, match="it is an input file, which would be lost"):
            bl.report(log, path)
    assert path.read_bytes() == before
