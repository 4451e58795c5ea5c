"""Answers of live experiments do not advise to use options that these do not have."""

from __future__ import annotations

import re

import numpy as np
import pytest

import belated as bl
from belated.assumptions.checks import cohorts
from belated.estimation.standardised import ARRIVAL_OPTION
from belated.live.wording import in_live
from belated.sequences.intervals import BINARY_KIND, BOUNDED
from belated.summaries import signs

#: An option of a command, or an argument with a value.
OPTION = re.compile(r"--[a-z]|`[a-z]+=|\b(kind|bounds|maturing|events|segment)=")


def test_advice_on_options_is_that_of_experiments():
    advice = [
        ARRIVAL_OPTION, BOUNDED, BINARY_KIND, cohorts._ADVICE, signs.DEPENDENCE_ADVICE, signs.CALIBRATION_ADVICE,
        signs.CONTEXT_ADVICE, signs.FINER_ADVICE, signs.POSITIVE_ADVICE, signs.single_value_advice(1),
    ]  # fmt: skip
    for text in advice:
        assert OPTION.search(text) or "log.closed()" in text or "weights=" in text
        assert not OPTION.search(in_live(text))
        assert "log.closed()" not in in_live(text)
    assert in_live("Wait for outcomes.") == "Wait for outcomes."


@pytest.mark.parametrize("outcome", ["few", "one value", "skewed", "positive"])
def test_answers_and_reports_have_no_options(place, tmp_path, outcome):
    exp = place.create(outcome=bl.live.real(), arms=["A", "B"])
    rng, rows = np.random.default_rng(1), 20 if outcome == "few" else 400
    values = rng.normal(size=rows)
    if outcome != "few":
        values = {"one value": np.full(rows, 3.0), "skewed": rng.lognormal(0, 3, rows) - 1}.get(outcome, values**2 + 1)
    exp.ask_many([str(i) for i in range(rows)])
    place.clock.forward(60)
    exp.tell_many((str(i), float(y)) for i, y in enumerate(values) if rng.random() < 0.4)
    answer = exp.answer()
    said = [
        answer.to_text(),
        answer.to_json(),
        *(each.why or "" for _, each in answer.contrasts),
        str(answer.diagnosis),
    ]
    try:
        said.append(answer.report(tmp_path / "report.html").read_text("utf-8").split("</style>")[1])
    except bl.LogError as error:
        assert outcome == "one value"
        said.append(str(error))
    without_caps = re.sub(r"with\s+cap=\S+\s+\(--cap\s+\S+\)", "", " ".join(said))
    assert re.search("new\\s+experiment", without_caps)
    assert not OPTION.search(re.sub(r"var\(--[^)]*\)|[\w-]+=\"[^\"]*\"", "", without_caps))


def test_an_answer_without_an_outcome_says_what_is_awaited(place):
    exp = place.create(outcome=bl.live.events("1d"))
    exp.ask("unit")
    exp.tell("unit", 1, key="first")
    assert "No window has closed yet: the outcome of a unit is known 1 day after its assignment." in str(exp.answer())


def test_the_log_of_an_experiment_with_events_has_its_name(place):
    exp = place.create(outcome=bl.live.events("1d"))
    exp.ask("unit")
    assert exp.log().name == exp.name
    assert exp.answer().diagnosis.name == exp.name
