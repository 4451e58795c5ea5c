"""Outcome models by name and given."""

from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.summaries.outcome_models import read_outcome_model

LOG = bl.Log(["A", "B", "A", "A"], [1.0, 2.0, 3.0, 5.0], np.full((4, 2), 0.5), delay=[0, 0, 0, 0])


def test_the_running_mean_is_that_of_what_had_arrived_before():
    means = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [2.0, 2.0]])
    running, given = bl.Sums.of(LOG), bl.Sums.of(LOG, "sqrt", means)
    for field in ("h2m2", "w2r2"):
        np.testing.assert_allclose(running[field], given[field], atol=1e-12)
    known = np.sqrt(0.5) * np.array([3, 2])  # rows after an arm's first arrival
    np.testing.assert_allclose(running["h_modelled"], known, atol=1e-12)
    np.testing.assert_allclose(running["hm"] + running.shift * known, np.sqrt(0.5) * means.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(running["w_modelled"], np.sqrt(2) * np.array([2, 0]), atol=1e-12)


def test_the_zero_model_is_0_whatever_the_shift():
    zero, given = bl.Sums.of(LOG, "sqrt", "zero"), bl.Sums.of(LOG, "sqrt", np.zeros((4, 2)))
    for field in ("h2m", "h2m2", "hwrm"):
        np.testing.assert_allclose(zero[field], given[field], atol=1e-12)
    for field in ("h_modelled", "w_modelled", "hm", "wm"):
        assert not zero[field].any()


def test_which_model_learns():
    assert read_outcome_model("running_mean").learns
    assert not read_outcome_model("zero").learns
    assert not read_outcome_model(lambda log: np.zeros((4, 2))).learns


def test_only_a_given_model_needs_the_rows():
    given = read_outcome_model(np.zeros((3, 2)))
    assert given.needs_rows
    assert not any(read_outcome_model(name).needs_rows for name in ("running_mean", "zero"))


def test_a_given_model_is_checked():
    with pytest.raises(bl.OptionError, match="`outcome_model` has shape"):
        bl.Sums.of(LOG, "sqrt", np.zeros(4))
    with pytest.raises(bl.OptionError, match="Did you mean 'zero'"):
        bl.Sums.of(LOG, "sqrt", "zer")
    for value in (np.inf, np.nan, -1e61):
        with pytest.raises(bl.OptionError, match=r"every value must be finite, from -1e\+60 to 1e\+60"):
            bl.Sums.of(LOG, "sqrt", np.full((4, 2), value))
    with pytest.raises(bl.OptionError, match=r"every value must be finite, from 0 to 1e\+60"):
        bl.Sums.of(LOG, np.full((4, 2), -1.0), "zero")
