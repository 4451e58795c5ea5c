"""Logs of what is recorded only when it happens."""

from __future__ import annotations

import math

import numpy as np
import pytest

import belated as bl
from belated.summaries.single_value import single_value, single_value_words


def conversions(rate=0.1, value=1.0, horizon=400, arms=2, seed=1):
    rng = np.random.default_rng(seed)
    happened = rng.random(horizon) < rate
    outcome = np.where(happened, value, math.nan)
    return bl.Log(rng.integers(arms, size=horizon), outcome, np.full((horizon, arms), 1 / arms))


def ledger_of(log):
    ledger = bl.Ledger(list(log.arms))
    keys = ledger.assign([log.arms[k] for k in log.code], log.propensity)
    arrived = log.arrived
    ledger.land([key for key, yes in zip(keys, arrived, strict=True) if yes], log.outcome[arrived])
    return ledger.sums


@pytest.mark.parametrize("value", [1.0, 9.99, 1e-9, 1e12 + 0.1])
def test_a_log_of_what_is_recorded_only_when_it_happens(value):
    log = conversions(value=value)
    first, rest = conversions(value=value, seed=2), conversions(value=value, seed=3)
    for sums in (bl.Sums.of(log), ledger_of(log), bl.Sums.of(first) + bl.Sums.of(rest)):
        assert single_value(sums) == pytest.approx(value, rel=1e-12)


def test_one_value_is_no_sign_if_others_could_not_be_missing():
    everything = bl.Log([0, 1] * 50, np.ones(100), np.full((100, 2), 0.5))
    assert single_value(bl.Sums.of(everything)) is None
    assert single_value(bl.Sums.of(conversions(horizon=50, rate=0.1))) is None  # five, by chance
    assert single_value(bl.Sums.of(conversions(value=0.0))) is None
    assert single_value(bl.Sums.of(conversions(value=-1.0))) is None
    nothing = bl.Log([0, 1], [math.nan] * 2, np.full((2, 2), 0.5))
    assert single_value(bl.Sums.of(nothing)) is None


def test_any_other_value_is_enough_to_be_trusted():
    log = conversions()
    outcome = log.outcome.copy()
    outcome[np.flatnonzero(np.isnan(outcome))[0]] = 0.0
    assert single_value(bl.Sums.of(bl.Log(log.code, outcome, log.propensity))) is None
    nearly = np.where(np.isnan(outcome), outcome, 1.0)
    nearly[np.flatnonzero(nearly == 1.0)[0]] = 1 + 1e-5
    assert single_value(bl.Sums.of(bl.Log(log.code, nearly, log.propensity))) is None
    # one value for each arm, but not the same
    apart = np.where(log.code == 0, 2.0, 1.0) * np.where(np.isnan(log.outcome), math.nan, 1.0)
    assert single_value(bl.Sums.of(bl.Log(log.code, apart, log.propensity))) is None


def test_conversions_get_no_interval_but_a_warning():
    log = conversions()
    with pytest.warns(bl.BelatedWarning, match=r"Every outcome that has arrived is 1, and \d+% of the rows have none"):
        result = bl.estimate(log)
    assert np.isnan(result.std_errors).all()
    assert "--events --window 7d" in single_value_words(1.0, 0.9)
