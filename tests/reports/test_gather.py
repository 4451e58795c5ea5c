"""What a report asks of a log beside the answers."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from contextual_policies import contextual
from engines import source_of
from reports.samples import changed, experiment, many_arms, waits
from scipy import stats

import belated as bl
from belated.base.errors import without_warnings
from belated.estimation.comparison import compare
from belated.reading.source import Source
from belated.reports.analysis import Questions, analyse
from belated.reports.gather import arrivals, arrived_within, chosen, gather
from belated.reports.rendering import render

START, HOUR = np.datetime64("2026-01-05T00:00:00", "us"), np.timedelta64(3_600_000_000, "us")


def dated(log, as_of=None):
    """Return the same log with a step an hour long."""
    late = np.where(np.isfinite(waits(log)), np.nan_to_num(waits(log), posinf=0) * HOUR, np.timedelta64("NaT", "us"))
    at = START + np.arange(len(log.code)) * HOUR
    return bl.Log(
        log.code, log.outcome, log.propensity, assigned_at=at, delay=late, as_of=at[-1] if as_of is None else at[as_of]
    )


def arrivals_of(source):
    return arrivals(source.evidence(), dates=source.clock.unit is not None)


@pytest.mark.parametrize("as_of", [None, 2500])
@pytest.mark.parametrize("dates", [False, True])
def test_the_life_table_is_the_delay_distribution(dates, as_of):
    delays = {0: bl.delays.geometric(30).censored(0.4), 1: bl.delays.negative_binomial(3, 0.05)}
    log = experiment(5000, 3, delays=delays)
    if dates:
        log = dated(log, as_of)
    elif as_of is not None:
        log = log.at(as_of)
    shown = arrivals_of(source_of(log))
    steps = shown.delays / HOUR if dates else shown.delays
    assert steps[0] == 0
    whole = np.floor(steps + 1e-9)
    truth = [0.6 * stats.geom.cdf(whole + 1, 1 / 31), stats.nbinom.cdf(whole, 3, 0.05)]
    for k, share in enumerate(shown.share):
        known = ~np.isnan(share)
        assert (np.diff(share[known]) >= 0).all()
        error = math.sqrt(0.25 / (log.code[: as_of or 5000] == k).sum())
        assert np.abs(share - truth[k])[known].max() < 4 * error
    assert shown.arrived + shown.still_out + shown.overdue == pytest.approx(np.ones(2))
    never = np.isnan(log.outcome[: as_of or 5000][log.code[: as_of or 5000] == 0]).mean()
    assert never - 0.12 < shown.overdue[0] < never + 0.01  # of those that never come, not the youngest
    assert shown.overdue[1] < 0.01


def test_the_life_table_counts_each_row_while_it_is_followed():
    # of five rows, one came at once and one in the last bin; the others are out, followed for one, two and three bins
    counts = np.zeros((1, 4, 3))
    counts[0, 0, 2] = counts[0, 2, 2] = counts[0, 3, 0] = counts[0, 3, 1] = counts[0, 3, 2] = 1
    assert arrived_within(counts)[0] == pytest.approx([1 / 5, 1 / 5, 1 - 4 / 5 * 1 / 2])


def test_an_experiment_that_has_just_begun_owes_nothing():
    # nine of ten outcomes take longer than the experiment has run
    shown = arrivals_of(source_of(experiment(500, delays=bl.delays.geometric(4000))))
    assert (shown.arrived < 0.15).all()
    assert (shown.overdue < 0.01).all()
    assert shown.arrived + shown.still_out + shown.overdue == pytest.approx(np.ones(2))


def test_an_arm_without_arrivals_is_still_out():
    log = experiment(600)
    shown = arrivals_of(source_of(changed(log, np.where(log.code == 0, math.nan, log.outcome))))
    assert (shown.arrived[0], shown.still_out[0], shown.overdue[0]) == (0, 1, 0)
    assert np.nan_to_num(shown.share[0]).max() == 0
    assert shown.arrived[1] > 0.9


def test_without_delays_there_is_nothing_to_show():
    rng = np.random.default_rng(1)
    at_once = bl.Log(rng.integers(2, size=100), rng.normal(size=100), np.full((100, 2), 0.5))
    assert arrivals_of(source_of(at_once)) is None
    nothing = bl.Log(at_once.code, np.full(100, math.nan), at_once.propensity)
    assert arrivals_of(source_of(nothing)) is None


def test_of_events_it_shows_when_they_happen(tmp_path):
    rng = np.random.default_rng(4)
    rows = 400
    ids = np.arange(rows)
    assignments = {"id": ids, "arm": ["A", "B"] * (rows // 2), "propensity": [0.5] * rows, "step": ids}
    who = rng.choice(rows, 150, replace=False)
    paid = {"id": who, "at": who + rng.integers(0, 40, 150)}
    source = bl.read(pa.table(assignments), pa.table(paid), arrived_at="at", events="indicator", window=20, as_of=rows,
                     maturing=False)  # fmt: skip
    shown = arrivals_of(source)
    first = {int(i): int(at - i) for i, at in zip(paid["id"], paid["at"], strict=True) if at - i <= 20}
    for k in range(2):
        mature = [i for i in range(rows - 20 + 1) if i % 2 == k]
        for delay, share in zip(shown.delays, shown.share[k], strict=True):
            assert share == pytest.approx(np.mean([first.get(i, math.inf) <= delay + 1e-9 for i in mature]), abs=0.01)
        assert shown.arrived[k] == pytest.approx(np.mean([i in first for i in mature]))
    page = bl.report(source, tmp_path / "report.html").read_text()
    assert "When events happen" in page
    assert "within 20 steps" in page


# ---------------------------------------------------------------- all that a report shows


def test_a_report_has_the_answers_of_its_analysis():
    log = many_arms()
    analysis = analyse(log, Questions(contrasts=(("J", "I"),), policies=("greedy",), interval="normal"))
    report = gather(analysis, title="Ten", command="belated analyze")
    assert report.estimate is analysis.result
    assert report.baseline == "A"
    assert [answer.name for answer in report.contrasts.answers] == [f"{arm} - A" for arm in "BCDEFGHIJ"]
    assert [answer.name for answer in report.further] == ["J - I", "greedy: J"]
    assert {each.interval for each in report.comparison.estimates.values()} == {"normal"}
    assert report.trajectory[-1].interval == "normal"
    assert (report.title, report.command, report.how) == ("Ten", "belated analyze", tuple(log.how_read))
    assert gather(analysis).title == log.name


def test_what_the_analysis_has_is_not_made_again():
    analysis = analyse(experiment(), Questions(estimator="all", sequential=True))
    report = gather(analysis)
    assert report.comparison is analysis.comparison
    assert report.sequence is analysis.sequence


def test_a_log_that_has_no_sequence_has_a_report():
    finer = contextual(2000, 2, traits=2, delay=0, seed=3).log
    chances = bl.Log(["A", "B"] * 100, np.arange(200.0), "uniform", arrival_probability=np.linspace(0.5, 1, 200))
    for log in (finer, chances):
        with pytest.raises(bl.OptionError, match="sequence"):
            bl.sequence(log)
        with without_warnings():
            report = gather(analyse(log, Questions()))
        assert report.sequence is None
        assert "If you look more than once" not in render(report)


def test_a_report_of_several_threads():
    logs = [experiment(400, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda log: gather(analyse(log, Questions())), logs))
    for log, report in zip(logs, reports, strict=True):
        assert report.estimate.values.tolist() == bl.estimate(log).values.tolist()


@pytest.mark.parametrize("most", [0, 10_000])
def test_an_engine_is_asked_one_question_after_another(monkeypatch, most):
    events, evidence = [], Source.evidence

    def slowly(source):
        events.append("evidence of memory" if source._held is not None else "evidence")
        time.sleep(0.05)
        result = evidence(source)
        events.append("done")
        return result

    def comparing(*arguments, **options):
        events.append("compare")
        return compare(*arguments, **options)

    analysis = analyse(source_of(experiment(200)), Questions())  # holds nothing
    monkeypatch.setattr("belated.reading.source.MOST_HELD", most)
    monkeypatch.setattr(Source, "evidence", slowly)
    monkeypatch.setattr("belated.reports.gather.compare", comparing)
    gather(analysis)
    assert events[0] == ("evidence of memory" if most else "evidence")
    assert most or events == ["evidence", "done", "compare"]


def test_only_the_chosen_arms_probabilities_are_shares_of_assignments():
    log = experiment(600)
    alone = bl.Log(log.code, log.outcome, log.propensity[np.arange(600), log.code], delay=waits(log), as_of=600)
    shares = chosen(alone, alone.evidence())
    assert not shares.probabilities
    assert shares.share.sum(axis=1) == pytest.approx(np.ones(len(shares.share)))
    assert chosen(log, log.evidence()).probabilities


@pytest.mark.parametrize("least", [0.0, -1.0, -1e-20])
def test_the_sequence_of_a_capped_log_is_that_of_sequence_or_asymptotic_where_a_cap_does_not_bound_outcomes(least):
    """An outcome just below 0 is below 0 for both, though it is lost when outcomes are summed about another value."""
    rng = np.random.default_rng(1)
    outcome = rng.exponential(10, 600)
    outcome[7] = least
    log = bl.Log(rng.integers(0, 2, 600), outcome, np.full(600, 0.5)).capped(30.0)
    shown = gather(analyse(log, Questions())).sequence
    if least == 0:
        assert shown.kind == bl.sequence(log).kind == "bernstein"
        return
    assert shown.kind == "asymptotic"
    with pytest.raises(bl.OptionError, match="assumed to be 0 or more"):
        bl.sequence(log)


def test_a_sequence_of_events_is_tested_at_the_looks_of_sequence():
    rng = np.random.default_rng(47)
    arm, t = rng.integers(0, 2, 150), np.sort(rng.uniform(0, 20, 150))
    unit = np.flatnonzero(rng.random(150) < 0.25 + 0.25 * arm)
    events = {"unit": unit, "age": rng.exponential(3, len(unit))}
    log = bl.Log.of_events(arm, "uniform", events, window=5, assigned_at=t, as_of=20)
    shown = gather(analyse(log, Questions())).sequence.contrast(1, 0)
    asked = bl.sequence(log).contrast(1, 0)
    assert (shown.p_value, shown.excluded_at) == (asked.p_value, asked.excluded_at)
