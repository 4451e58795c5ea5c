"""The words of a report."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from reports.samples import experiment, sample_report
from scipy import stats

import belated as bl
from belated.base.errors import without_warnings
from belated.base.tables import Column
from belated.reports.analysis import Questions, analyse
from belated.reports.gather import gather
from belated.reports.narrative import answer, question
from belated.reports.rendering import render
from belated.reports.report import Report


def test_two_arms_that_differ():
    report = sample_report()
    one = report.estimate.contrast("B", "A")
    assert one.low > 0
    (sentence,) = answer(report)
    assert sentence == (
        f"Mean revenue within 7 days is {one.estimate:.2f} higher with B than with A "
        f"(95% interval {one.low:.2f} to {one.high:.2f} higher, p < 0.0001)."
    )
    assert question(report) == "What is the mean revenue within 7 days of assignment for A and B, and do they differ?"


def test_a_difference_below_0_is_said_without_a_minus():
    report = sample_report(means=(2.0, 1.0), within=None)
    (sentence,) = answer(report)
    near, far = map(float, re.search(r"interval (\S+) to (\S+) lower", sentence).groups())
    assert 0 < near < far
    assert sentence.startswith("Mean revenue is ")
    assert " lower with B than with A" in sentence


def test_two_arms_that_cannot_be_told_apart():
    report = sample_report(means=(1.0, 1.0))
    one = report.estimate.contrast("B", "A")
    (sentence,) = answer(report)
    assert sentence.startswith(
        "There is no clear difference between B and A in mean revenue within 7 days (B minus A: 95% interval "
    )
    assert f"interval {one.low:.2f} to {one.high:.2f}, p = {one.p_value:.3f})" in sentence


def test_the_highest_arm_and_whether_that_is_certain():
    sure, unsure = sample_report(tuple("ABC"), (1, 2, 6)), sample_report(tuple("ABC"), (1, 5.8, 6))
    assert "is highest with C" in answer(sure)[0]
    assert (
        "It is clearly higher than every other arm (the 2 others compared with it at once, at 95%)." in answer(sure)[0]
    )
    assert "It is not clearly higher than C." in answer(unsure)[0]
    assert question(sure).endswith("within 7 days of assignment for each of 3 arms, and how do they differ from A?")


def test_an_arm_is_not_clearly_higher_than_one_that_it_may_equal():
    arm = ["A", "B"] * 20 + ["C"]
    noise = stats.norm.ppf((np.arange(20) + 0.5) / 20)
    log = bl.Log(arm, [*np.stack([noise, noise[::-1] + 0.63], axis=1).ravel(), 0.0], [[1 / 3] * 3] * 41)
    with without_warnings():
        report = Report(title="", estimate=bl.estimate(log), contrasts=bl.estimate(log).contrasts())
    assert 0.05 < report.estimate.contrast("B", "A").p_value < 0.1
    highest, difference, _ = answer(report)
    assert highest.endswith("It is not clearly higher than A.")
    assert difference.startswith("There is no clear difference between B and A")


def test_differences_without_a_baseline():
    report = sample_report(tuple("ABC"), (1, 1, 6))
    report = replace(report, baseline=None, contrasts=report.estimate.contrasts(simultaneous=True))
    said = " ".join(answer(report))
    assert "with C than with A" in said
    assert "with C than with B" in said
    assert "no clear difference" not in said
    assert "This difference may be 0 (95% interval in brackets): B minus A (" in said
    assert "The intervals of all 3 differences hold together at 95%." in said


def test_what_differs_only_by_itself_is_not_said_to_differ():
    for simultaneous, closing in ((False, "holds by itself"), (True, "hold together at 95%.")):
        report = sample_report(tuple("ABCDEFGHIJKL"), [1.0] * 11 + [1.4], rows=600)
        est = report.estimate
        report = replace(report, contrasts=est.contrasts("A", simultaneous=simultaneous))
        alone, joint = (est.contrasts("A", simultaneous=together).answers for together in (False, True))
        only_alone = [one.name for one, all_ in zip(alone, joint, strict=True) if one.low > 0 >= all_.low]
        said = answer(report)
        assert only_alone
        assert "It is not clearly higher than" in said[0]
        assert closing in said[-1]
        assert not any("higher with" in sentence or "lower with" in sentence for sentence in said)
        words = " ".join(said)
        assert ("but not when all 11 differences are compared at once" in words) is not simultaneous
        for name in only_alone:
            assert (name.replace(" - ", " minus ") in words) is not simultaneous


def test_an_arms_name_is_written_as_it_is_where_it_begins_a_sentence():
    report = sample_report(tuple("abcdefghijkl"), [1.0] * 11 + [1.4], rows=600)
    report = replace(report, contrasts=report.estimate.contrasts("a"))
    (sentence,) = (sentence for sentence in answer(report) if "compared at once" in sentence)
    assert re.match("[a-l] minus a", sentence)


def test_no_arm_of_many_equal_ones_is_said_to_differ_more_often_than_promised():
    runs, said = 30, 0
    for seed in range(runs):
        bandit = bl.Bandit({k: bl.arms.normal(1.0) for k in range(10)})
        est = bl.estimate(bl.simulate(bandit, bl.policies.uniform(), 400, seed))
        words = answer(Report(title="", estimate=est, baseline=0, contrasts=est.contrasts(0)))
        said += any("higher with" in sentence or "lower with" in sentence for sentence in words)
    assert stats.binom.sf(said - 1, runs, 0.05) > 1e-3


def test_the_number_of_an_arm_begins_a_sentence_with_a_capital():
    report = sample_report((1, 2, 3), (1, 2, 9), arriving={2: 1})
    assert "Arm 3 has an estimate, but no interval: only one of its outcomes has arrived." in answer(report)
    report = sample_report(tuple(range(12)), [1.0] * 11 + [1.4], rows=600)
    (sentence,) = (sentence for sentence in answer(report) if "compared at once" in sentence)
    assert re.match("Arm [0-9]+ minus arm 0", sentence)


def test_one_more_difference_is_one():
    report = sample_report(tuple("ABCDEF"), (1, 5, 9, 13, 17, 21), rows=600)
    assert "There is 1 more clear difference in the table." in " ".join(answer(report))


def test_a_lift_stands_beside_its_difference():
    report = sample_report(means=(5.0, 6.0))
    report = replace(report, contrasts=report.estimate.contrasts("A", lift=True))
    (sentence,) = answer(report)
    assert sentence.endswith(f"), a lift of {report.estimate.lift('B', 'A').words}.")
    alike = sample_report(means=(5.0, 5.0))
    (sentence,) = answer(replace(alike, contrasts=alike.estimate.contrasts("A", lift=True)))
    assert sentence.endswith(f"), a lift of {alike.estimate.lift('B', 'A').words}.")
    unknown = sample_report(arriving={1: 0})
    said = answer(replace(unknown, contrasts=unknown.estimate.contrasts("A", lift=True)))
    assert not any("lift" in sentence or "relative difference" in sentence for sentence in said)
    untold = sample_report(means=(0.0, 1.0))
    said = answer(replace(untold, contrasts=untold.estimate.contrasts("A", lift=True)))
    assert "lift" not in said[0]
    assert said[1] == "The mean of 'A' does not differ significantly from 0, so the relative difference has no bounds."


def test_many_arms_are_summed_up():
    names = tuple(f"v{k}" for k in range(20))
    report = sample_report(names, [1.0] * 19 + [9.0], rows=1_000)
    said = answer(report)
    assert "is highest with v19" in said[0]
    assert any(s.endswith("arms do not differ clearly from v0.") for s in said)
    assert len(said) < 8


def test_arms_without_an_answer_are_named():
    report = sample_report(tuple("ABCD"), (1, 2, 99, 1), arriving={2: 1, 3: 0})
    said = answer(report)
    assert said[0].startswith("Among the arms with an interval, mean revenue within 7 days is highest with B")
    assert "C has an estimate, but no interval: only one of its outcomes has arrived." in said
    assert "D has no answer: none of its outcomes has arrived." in said
    nothing = sample_report(("A", "B"), arriving={0: 0, 1: 0})
    assert answer(nothing) == ["Each of A and B has no answer: none of its outcomes has arrived."]
    render(nothing)


def test_one_of_two_arms_has_an_answer():
    said = answer(sample_report(arriving={1: 0}))
    assert said[0].startswith("With A, mean revenue within 7 days is ")
    assert said[0].endswith(". No other arm has an interval to compare it with.")
    assert said[1:] == ["B has no answer: none of its outcomes has arrived."]


@pytest.mark.parametrize("arms", ["AB", "ABC"])
def test_no_arm_without_an_interval_is_called_the_highest(arms):
    log = bl.Log(list(arms) * 20, np.full(20 * len(arms), 4.0), "uniform")
    with without_warnings():
        said = answer(gather(analyse(log, Questions())))
    assert said == [
        "No arm has an interval, so it is not known which one is the best.",
        f"Each of {'A and B' if arms == 'AB' else 'A, B and C'} has an estimate, but no interval: its outcomes do not "
        "show their variance.",
    ]


def test_names_that_would_not_read_as_names_are_quoted():
    report = sample_report(("a b", 'x"y'), (1, 5))
    assert 'with “x"y” than with “a b”' in answer(report)[0]
    assert "with arm 7 than with arm 3" in answer(sample_report((3, 7), (1, 5)))[0]
    assert "with \u2068שלום\u2069 than" in answer(sample_report(("A", "שלום"), (1, 5)))[0]


def test_further_questions_are_answered():
    report = sample_report()
    asked = (report.estimate.policy({"A": 0.2, "B": 0.8}), report.estimate.contrast("B", "A").test(0.5, "greater"))
    said = answer(replace(report, further=asked))
    assert said[1].startswith("0.2 A + 0.8 B: ")
    assert said[2].endswith("to ∞).")


@pytest.mark.parametrize(("arms", "runs"), [(2, 60), (5, 40), (20, 12)])
def test_one_of_equal_arms_is_seldom_called_the_best(arms, runs):
    bandit = bl.Bandit({k: bl.arms.normal(1.0) for k in range(arms)}, bl.delays.pareto(1.0).censored(0.2))
    said = 0
    for seed in range(runs):
        log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.5, burn_in=0.2), 400, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            said += "It is clearly higher" in answer(Report(title="", estimate=bl.estimate(log)))[0]
    assert stats.binom.sf(said - 1, runs, 0.05) > 1e-3


def test_the_best_arm_is_called_the_best():
    log = experiment(2000, means=(0.0, 0.0, 2.0, 1.0), delays=bl.delays.geometric(5))
    (sentence,) = answer(Report(title="", estimate=bl.estimate(log)))
    assert "is highest with arm 2" in sentence
    assert sentence.endswith(
        "It is clearly higher than every other arm (the 3 others compared with it at once, at 95%)."
    )
    low, high = Column(
        "", list(bl.estimate(log).best().interval), "estimate", [bl.estimate(log).std_errors[2]] * 2
    ).texts()
    assert f"interval {low} to {high}, adjusted for being the best of 4)" in sentence


def test_the_highest_arm_agrees_with_best_and_with_intervals_that_hold_together():
    bandit = bl.Bandit(
        {"Plain": bl.arms.bernoulli(0.10), "Emoji": bl.arms.bernoulli(0.08), "Question": bl.arms.bernoulli(0.12),
         "Your name": bl.arms.bernoulli(0.15)},
        {"Plain": bl.delays.geometric(50), "Your name": bl.delays.pareto(0.75).censored(0.1)},
    )  # fmt: skip
    est = bl.estimate(bl.simulate(bandit, bl.policies.thompson_beta(decay=0.3), 6000, seed=3))
    alone, joint = (est.contrasts(simultaneous=together) for together in (False, True))
    assert alone.answers[-1].low > 0 > joint.answers[-1].low  # Your name - Question
    assert est.best().contenders == ("Your name",)
    said = answer(Report(title="", estimate=est, contrasts=alone))
    assert "It is clearly higher than every other arm (the 3 others compared with it at once, at 95%)." in said[0]
    assert any("but not when all 6 differences are compared at once" in sentence for sentence in said)
    said = answer(Report(title="", estimate=est, contrasts=joint))
    assert said[0].endswith("It is not clearly higher than Question.")
