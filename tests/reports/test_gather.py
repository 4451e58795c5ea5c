"""What a report asks of a log: when outcomes arrive, what was assumed, and which arm is best."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pyarrow as pa
import pytest
from engines import source_of
from scipy import stats

import belated as bl
from belated.base.tables import Column
from belated.reports.gather import _arrivals, arrived_within, report
from belated.reports.narrative import answer
from belated.reports.report import Report

START, HOUR = np.datetime64("2026-01-05T00:00:00", "us"), np.timedelta64(3_600_000_000, "us")


def experiment(horizon=2000, seed=1, outcome=bl.arms.normal, means=(1.0, 1.0), delays=None):
    delays = delays or {0: bl.delays.pareto(0.75).censored(0.5), 1: bl.delays.geometric(20)}
    bandit = bl.Bandit({k: outcome(mean) for k, mean in enumerate(means)}, delays)
    return bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.5, burn_in=0.2), horizon, seed)


def waits(log):
    """Return delays in steps, infinite for never."""
    return np.where(np.isnan(log.outcome), math.inf, log.arrived_at - log.assigned_at)


def changed(log, outcome=None, propensity=None, delay=None):
    """Return the same log with other columns; what has no outcome never comes."""
    outcome = log.outcome if outcome is None else outcome
    delay = np.where(np.isnan(outcome), math.inf, waits(log) if delay is None else delay)
    return bl.Log(
        log.code, outcome, log.propensity if propensity is None else propensity, delay=delay, as_of=len(log.code)
    )


def dated(log, as_of=None):
    """Return the same log with a step an hour long."""
    late = np.where(np.isfinite(waits(log)), np.nan_to_num(waits(log), posinf=0) * HOUR, np.timedelta64("NaT", "us"))
    at = START + np.arange(len(log.code)) * HOUR
    return bl.Log(
        log.code, log.outcome, log.propensity, assigned_at=at, delay=late, as_of=at[-1] if as_of is None else at[as_of]
    )


def arrivals(source):
    return _arrivals(source.evidence(), source.clock.unit is not None)


# ---------------------------------------------------------------- when outcomes arrive


@pytest.mark.parametrize("as_of", [None, 2500])
@pytest.mark.parametrize("dates", [False, True])
def test_the_life_table_is_the_delay_distribution(dates, as_of):
    delays = {0: bl.delays.geometric(30).censored(0.4), 1: bl.delays.negative_binomial(3, 0.05)}
    log = experiment(5000, 3, delays=delays)
    if dates:
        log = dated(log, as_of)
    elif as_of is not None:
        log = log.at(as_of)
    found = arrivals(source_of(log))
    steps = found.delays / HOUR if dates else found.delays
    assert steps[0] == 0
    whole = np.floor(steps + 1e-9)
    truth = [0.6 * stats.geom.cdf(whole + 1, 1 / 31), stats.nbinom.cdf(whole, 3, 0.05)]
    for k, share in enumerate(found.share):
        known = ~np.isnan(share)
        assert (np.diff(share[known]) >= 0).all()
        error = math.sqrt(0.25 / (log.code[: as_of or 5000] == k).sum())
        assert np.abs(share - truth[k])[known].max() < 4 * error
    assert found.arrived + found.still_out + found.overdue == pytest.approx(np.ones(2))
    never = np.isnan(log.outcome[: as_of or 5000][log.code[: as_of or 5000] == 0]).mean()
    assert never - 0.12 < found.overdue[0] < never + 0.01  # of those that never come, not the youngest
    assert found.overdue[1] < 0.01


def test_the_life_table_counts_each_row_while_it_is_followed():
    # of five rows, one came at once and one in the last bin; the others are out, followed for one, two and three bins
    counts = np.zeros((1, 4, 3))
    counts[0, 0, 2] = counts[0, 2, 2] = counts[0, 3, 0] = counts[0, 3, 1] = counts[0, 3, 2] = 1
    assert arrived_within(counts)[0] == pytest.approx([1 / 5, 1 / 5, 1 - 4 / 5 * 1 / 2])


def test_an_experiment_that_has_just_begun_owes_nothing():
    # nine of ten outcomes take longer than the experiment has run
    found = arrivals(source_of(experiment(500, delays=bl.delays.geometric(4000))))
    assert (found.arrived < 0.15).all()
    assert (found.overdue < 0.01).all()
    assert found.arrived + found.still_out + found.overdue == pytest.approx(np.ones(2))


def test_an_arm_without_arrivals_is_still_out():
    log = experiment(600)
    found = arrivals(source_of(changed(log, np.where(log.code == 0, math.nan, log.outcome))))
    assert (found.arrived[0], found.still_out[0], found.overdue[0]) == (0, 1, 0)
    assert np.nan_to_num(found.share[0]).max() == 0
    assert found.arrived[1] > 0.9


def test_without_delays_there_is_nothing_to_show():
    rng = np.random.default_rng(1)
    at_once = bl.Log(rng.integers(2, size=100), rng.normal(size=100), np.full((100, 2), 0.5))
    assert arrivals(source_of(at_once)) is None
    nothing = bl.Log(at_once.code, np.full(100, math.nan), at_once.propensity)
    assert arrivals(source_of(nothing)) is None


# ---------------------------------------------------------------- what was assumed


def test_the_section_of_a_report(tmp_path):
    html = report(experiment(), tmp_path / "r.html").read_text()
    section = html[html.index("What was assumed, and") : html.index("How it was computed")]
    assert section.count("Green.") == 12
    assert "12 green: nothing speaks against it" in section
    assert "Within arms, mean outcomes do not change over time (p = " in section
    assert "Condition A2 of the paper." in section
    assert "To do" not in section


def test_a_report_says_what_does_not_hold_and_what_to_do(tmp_path):
    log = experiment(6000)
    html = report(changed(log, log.outcome + np.arange(6000) / 6000), tmp_path / "r.html").read_text()
    section = html[html.index("What was assumed, and") : html.index("How it was computed")]
    assert "Red: does not hold." in section
    assert "Within arms, mean outcomes change over time (p &lt; 0.0001)." in section
    assert "Compare arms over a stretch in which nothing changed" in section


# ---------------------------------------------------------------- looking more than once


def test_a_report_shows_the_band_for_every_look(tmp_path):
    log = experiment(3000, means=(0.0, 1.0), delays=bl.delays.geometric(5))
    html = report(log, tmp_path / "r.html").read_text()
    section = html[html.index("If you look more than once") : html.index("When outcomes arrive")]
    sequence = bl.sequence(log)
    contrast = sequence.contrast(1, 0)
    assert f"It first left out 0 as of {contrast.excluded_at} (always-valid p &lt; 0.0001)." in section
    assert "95% asymptotic confidence sequence" in section
    assert all(f">{band}<" in section for band in ("for one look", "for every look"))
    early = report(log.at(40), tmp_path / "r.html").read_text()
    assert "Nothing can be said yet: Arm " in early[early.index("If you look more than once") :]


# ---------------------------------------------------------------- the best arm


@pytest.mark.parametrize(("arms", "runs"), [(2, 200), (5, 100), (20, 25)])
def test_one_of_equal_arms_is_seldom_called_the_best(arms, runs):
    bandit = bl.Bandit({k: bl.arms.normal(1.0) for k in range(arms)}, bl.delays.pareto(1.0).censored(0.2))
    said = 0
    for seed in range(runs):
        log = bl.simulate(bandit, bl.policies.epsilon_greedy(decay=0.5, burn_in=0.2), 400, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bl.BelatedWarning)
            said += "It lies above" in answer(Report("", bl.estimate(log)))[0]
    assert stats.binom.sf(said - 1, runs, 0.05) > 1e-3


def test_the_best_arm_is_called_the_best():
    log = experiment(2000, means=(0.0, 0.0, 2.0, 1.0), delays=bl.delays.geometric(5))
    (sentence,) = answer(Report("", bl.estimate(log)))
    assert "is highest with arm 2" in sentence
    assert sentence.endswith("It lies above every other arm, all compared at once at 95%.")
    low, high = Column(
        "", list(bl.estimate(log).best().interval), "estimate", [bl.estimate(log).std_errors[2]] * 2
    ).texts()
    assert f"interval {low} to {high}, which allows for its being chosen as the highest)" in sentence


def test_of_events_it_shows_when_they_happen(tmp_path):
    rng = np.random.default_rng(4)
    rows = 400
    made = {"id": np.arange(rows), "arm": ["A", "B"] * (rows // 2), "propensity": [0.5] * rows, "step": np.arange(rows)}
    who = rng.choice(rows, 150, replace=False)
    paid = {"id": who, "at": who + rng.integers(0, 40, 150)}
    source = bl.read(pa.table(made), pa.table(paid), arrived_at="at", events="indicator", window=20, as_of=rows)
    found = arrivals(source)
    first = {int(i): int(at - i) for i, at in zip(paid["id"], paid["at"], strict=True) if at - i <= 20}
    for k in range(2):
        mature = [i for i in range(rows - 20 + 1) if i % 2 == k]
        for delay, share in zip(found.delays, found.share[k], strict=True):
            assert share == pytest.approx(np.mean([first.get(i, math.inf) <= delay + 1e-9 for i in mature]), abs=0.01)
        assert found.arrived[k] == pytest.approx(np.mean([i in first for i in mature]))
    page = bl.report(source, tmp_path / "report.html").read_text()
    assert "When events happen" in page
    assert "within 20 steps" in page
