from __future__ import annotations

import math

import numpy as np
import pytest

import belated as bl

A, B = bl.arms.normal(0.5), bl.arms.normal(1.0)
ONE = bl.Bandit({"A": A, "B": B})
X = {"x": bl.arms.normal(2.0)}


def test_means_are_averages_over_segments_and_covariates():
    bandit = bl.ContextualBandit(
        {"DE": ONE, "FR": bl.Bandit({"B": bl.arms.normal(-0.2), "A": A})},  # in another order
        {"FR": 0.4, "DE": 0.6},
        X,
        {"x": {"A": 0.1}},
    )
    assert bandit.arms == ("A", "B")
    assert bandit.means_by_segment == {"DE": {"A": 0.7, "B": 1.0}, "FR": {"A": 0.7, "B": -0.2}}
    assert bandit.means == pytest.approx({"A": 0.7, "B": 0.6 - 0.08})
    assert [arm.mean for arm in bandit.cell_arms] == [0.5, 1.0, 0.5, -0.2]


def test_without_shares_segments_are_equally_large():
    np.testing.assert_array_equal(bl.ContextualBandit({"DE": ONE, "FR": ONE}).mix, [0.5, 0.5])


def test_a_covariate_without_a_mean_matters_only_with_a_slope():
    heavy = {"x": bl.arms.student_t(1)}
    assert bl.ContextualBandit({"DE": ONE}, covariates=heavy).means == {"A": 0.5, "B": 1.0}
    sloped = bl.ContextualBandit({"DE": ONE}, covariates=heavy, slopes={"x": 1.0})
    assert math.isnan(sloped.means["A"])
    with pytest.raises(bl.OptionError, match="the mean of one of its arms does not exist"):
        bl.study(sloped, bl.policies.uniform(), 100, 10)


def contextual(segments=None, **options):
    return bl.ContextualBandit({"DE": ONE, "FR": ONE} if segments is None else segments, **options)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: contextual({}), "`segments` must map labels to bandits"),
        (lambda: contextual({"DE": 3}), "`segments['DE']` is 3; it must be a Bandit"),
        (lambda: contextual({None: ONE}), "`segments` has the label None"),
        (lambda: contextual({"DE": ONE, "FR": bl.Bandit({"A": A})}), "all segments must have the same arms"),
        (lambda: contextual(shares={"DE": 1.0}), "a share for each of the segments ['DE', 'FR']"),
        (lambda: contextual(shares=[0.5, 0.5]), "a share for each of the segments"),
        (lambda: contextual(shares={"DE": 0.5, "FR": 0.6}), "above 0 and sum to 1"),
        (lambda: contextual(shares={"DE": 1.0, "FR": 0.0}), "above 0 and sum to 1"),
        (lambda: contextual(covariates=["x"]), "`covariates` is ['x']; it must map names"),
        (lambda: contextual(covariates={"x": 1.0}), "`covariates['x']` is 1.0"),
        (lambda: contextual(covariates={3: A}), "names must be text"),
        (lambda: contextual(slopes={"x": 1.0}), "`slopes` names 'x', which is not one of the covariates []"),
        (lambda: contextual(covariates=X, slopes={"x": "a"}), "`slopes['x']` is 'a'"),
        (lambda: contextual(covariates=X, slopes={"x": {"C": 1}}), "names 'C', which is not one of the arms"),
        (lambda: contextual(covariates=X, arrival={"x": math.nan}), "`arrival['x']` is nan"),
        (
            lambda: contextual({"DE": bl.Bandit({"A": bl.arms.bernoulli(0.1)})}, covariates=X, slopes={"x": 0.1}),
            "whose outcomes are 0 or 1; slopes need other outcomes",
        ),
        (lambda: bl.simulate(contextual(), bl.policies.thompson_beta(), 10), "needs Bernoulli arms"),
        (lambda: bl.simulate(contextual(), bl.policies.fixed({"A": 1.0}), 10), "the arms are ['A', 'B']"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(ask, sentence):
    with pytest.raises(bl.OptionError) as caught:
        ask()
    assert sentence in str(caught.value)
