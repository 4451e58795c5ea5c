"""Sections: what a report shows, and in which order."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
from reports.samples import read_page, sample_report

import belated as bl
from belated.reports.narrative import answer
from belated.reports.page import render
from belated.reports.report import Arrivals, Chosen, Report
from belated.reports.sections import REMARKS


def test_the_page_has_its_sections_in_order():
    report = sample_report(warnings=("Few outcomes.",), notes=("12 outcomes were left out.",))
    html = render(replace(report, further=(report.estimate.policy({"A": 0.5, "B": 0.5}),)))
    reader = read_page(html)
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


def test_a_long_table_is_folded():
    report = sample_report(tuple(f"v{k}" for k in range(9)), range(9), rows=600)
    html = render(replace(report, baseline=None, contrasts=report.estimate.contrasts()))
    assert "All 36 rows as a table" in html
    assert "The 24 clearest of 36 are drawn." in html


def test_only_an_estimate_is_enough():
    report = sample_report()
    assert "is highest with B" in answer(Report(title="x", estimate=report.estimate))[0]
    html = render(Report(title="x", estimate=report.estimate))
    ids = [attrs["id"] for tag, attrs in read_page(html).tags if tag == "h2"]
    assert ids == ["arms", "how"]
    unknown = Arrivals(
        arms=("A", "B"),
        delays=[0, 1],
        share=np.full((2, 2), math.nan),
        arrived=np.zeros(2),
        still_out=np.ones(2),
        overdue=np.zeros(2),
    )
    chosen = Chosen(arms=("A", "B"), moments=[1], share=np.array([[0.5, 0.5]]), probabilities=False)
    render(replace(report, arrivals=unknown, chosen=chosen))


def test_only_the_chosen_arms_propensities():
    rng = np.random.default_rng(1)
    log = bl.Log(["A", "B"] * 50, rng.normal(size=100), np.full(100, 0.5))
    estimate = bl.estimate(log, "dipw")
    html = render(
        Report(
            title="x", estimate=estimate, baseline="A", contrasts=estimate.contrasts("A"), comparison=bl.compare(log)
        )
    )
    assert "ever comes" not in html
    assert REMARKS["dipw"] in html
    assert REMARKS["nh0"] not in html
