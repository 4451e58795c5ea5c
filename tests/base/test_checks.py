from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import belated as bl
from belated.base import checks
from belated.base.checks import nearest
from belated.base.errors import OptionError


def test_probabilities_of_more_arms_may_be_further_from_summing_to_one():
    assert [checks.tolerance(arms) for arms in (1, 2, 3, 40)] == pytest.approx([1e-6, 1e-6, 1.5e-6, 2e-5], rel=1e-6)


def test_shares_are_not_negative_and_sum_to_one():
    rows = [[0.5, 0.5], [0.5, 0.500001], [0.5, 0.50001], [-0.5, 1.5], [np.nan, 1.0], [1e308, 1e308]]
    assert checks.are_shares(rows).tolist() == [True, True, False, False, False, False]
    assert not checks.are_shares([])
    checks.check_shares("`shares`", {"A": 1}, [1.0])
    with pytest.raises(OptionError, match="its parts must not be negative and must sum to 1"):
        checks.check_shares("`shares`", {"A": 2}, [2.0], "parts")


def twelve(segments=False):
    """Return a log of twelve arms or, if asked, of two arms in twelve segments."""
    rng, of = np.random.default_rng(0), np.arange(1200) % 12
    arm = rng.integers(2, size=1200) if segments else of
    p = np.full((1200, 2), 1 / 2) if segments else np.full((1200, 12), 1 / 12)
    return bl.Log(arm, rng.normal(size=1200), p, segment=of if segments else None)


BANDIT = bl.Bandit({0: bl.arms.bernoulli(0.5)})


@pytest.mark.parametrize(
    "take",
    [
        lambda p: bl.Log(range(12), np.zeros(12), np.tile(p, (12, 1))),
        lambda p: bl.Log(range(12), np.zeros(12), dict(enumerate(p))),
        lambda p: bl.Ledger(range(12)).assign([0], [p]),
        lambda p: bl.estimate(twelve()).policy(dict(enumerate(p))),
        lambda p: bl.estimate(twelve(), target=np.tile(p, (1200, 1))),
        lambda p: bl.estimate(twelve(segments=True)).standardised(dict(enumerate(p))),
        lambda p: bl.policies.fixed(dict(enumerate(p))),
        lambda p: bl.ContextualBandit(dict.fromkeys(range(12), BANDIT), shares=dict(enumerate(p))),
    ],
    ids=["log", "split", "ledger", "policy", "target", "shares", "fixed policy", "segments of a simulation"],
)
def test_probabilities_to_six_decimals_are_taken_everywhere(take):
    take([0.083333] * 12)  # twelfths, which sum to 0.999996
    with pytest.raises(ValueError, match="sum"):
        take([0.08333] * 12)


def test_outcomes_have_powers_that_are_numbers():
    assert checks.outcome_fault(-1e60) is None
    assert checks.outcome_fault(math.inf) == "is inf; it must be a finite number"
    assert "must lie between -1e+60 and 1e+60" in str(checks.outcome_fault(1.1e60))


def test_one_of_returns_the_word_or_names_the_nearest():
    assert checks.one_of("interval", "t", ("auto", "t")) == "t"
    assert checks.one_of("interval", np.str_("t"), iter(["auto", "t"])) == "t"
    for value, words in {
        "tt": "`interval` is 'tt'; it must be one of 'auto', 't'. Did you mean 't'?",
        "x": "`interval` is 'x'; it must be one of 'auto', 't'.",
        None: "`interval` is None; it must be one of 'auto', 't'.",
    }.items():
        with pytest.raises(OptionError) as wrong:
            checks.one_of("interval", value, ("auto", "t"))
        assert str(wrong.value) == words


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int8(1), Fraction(1), Decimal(1), np.array(1.0)])
def test_numbers_of_every_type(value):
    number = checks.real("x", value)
    assert type(number) is float
    assert number == 1
    assert checks.positive("x", value) == checks.probability("x", value) == 1


@pytest.mark.parametrize(
    "value", [None, "1", b"1", True, math.nan, math.inf, 10**400, [1], np.array([1.0, 2.0]), 1j, object(), {}]
)
@pytest.mark.parametrize("check", [checks.real, checks.positive, checks.fraction, checks.probability])
def test_what_is_not_a_number_is_refused(check, value):
    with pytest.raises(OptionError, match=r"`x` is .*; it must be a finite number"):
        check("x", value)


@pytest.mark.parametrize(
    ("check", "value", "words"),
    [
        (checks.fraction, 0, "`x` is 0; it must lie strictly between 0 and 1."),
        (checks.fraction, 1.0, "`x` is 1.0; it must lie strictly between 0 and 1."),
        (checks.positive, 0.0, "`x` is 0.0; it must be above 0."),
        (checks.probability, 1.5, "`x` is 1.5; it must lie in [0, 1]."),
        (checks.probability, -1, "`x` is -1; it must lie in [0, 1]."),
    ],
)
def test_numbers_out_of_range(check, value, words):
    with pytest.raises(OptionError) as wrong:
        check("x", value)
    assert str(wrong.value) == words


def test_ends_that_count():
    assert checks.probability("x", 0) == 0
    assert checks.probability("x", 1) == 1


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers(value):
    number = checks.whole("x", value, least=3)
    assert type(number) is int
    assert number == 3


@pytest.mark.parametrize("value", [2, 3.0, "3", True, None, np.float64(3), np.array([3, 4]), 1j])
def test_what_is_not_whole_or_too_small(value):
    with pytest.raises(OptionError, match="it must be a whole number, 3 or more"):
        checks.whole("x", value, least=3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda deep: bl.estimate(LOG, level=deep),
        lambda deep: bl.estimate(LOG, interval=deep),
        lambda deep: bl.estimate(LOG).policy(deep),
        lambda deep: bl.estimate(LOG).contrast(*deep, "A"),
        lambda deep: bl.sensitivity(LOG, ("B", "A"), gammas=deep),
        lambda deep: bl.sequence(LOG, bounds=deep),
        lambda deep: bl.arms.bernoulli(deep),
        lambda deep: bl.delays.geometric(deep),
        lambda deep: bl.policies.fixed(deep),
        lambda deep: bl.policies.own(deep),
        lambda deep: bl.policies.epsilon_greedy(burn_in=deep),
        lambda deep: bl.Bandit({"A": bl.arms.bernoulli(0.1)}, deep),
        lambda deep: bl.simulate(deep, deep, 10),
        lambda deep: bl.Log(arm=["A"], outcome=[1], propensity=deep),
    ],
)
def test_an_option_that_is_nested_too_deep_has_its_sentence(ask):
    deep = [1.0]
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(bl.BelatedError) as caught:
        ask(deep)
    assert len(str(caught.value)) < 300


LOG = bl.Log(arm=["A", "B"] * 5, outcome=[0, 1, 1, 0, 1] * 2, propensity=[0.5] * 10)
ESTIMATORS = ["daipw", "daipw_paper", "dipw", "mean", "hajek", "nh", "nh0", "iad", "all"]


@pytest.mark.parametrize(
    ("word", "names", "wanted"),
    [
        ("diapw", ESTIMATORS, "daipw"), ("DAIPW", ESTIMATORS, "daipw"), ("maen", ESTIMATORS, "mean"),
        ("hayek", ESTIMATORS, "hajek"), ("median_of_means", ESTIMATORS, None), ("x", ESTIMATORS, None),
        ("", ESTIMATORS, None), ("variants", ["Variant", "outcome"], "Variant"), ("a", [], None),
    ],
)  # fmt: skip
def test_what_is_meant(word, names, wanted):
    assert nearest(word, names) == wanted


def test_long_names_are_compared_by_their_beginnings():
    assert nearest("x" * 10_000, ["y" * 10_000, "x" * 9_000]) == "x" * 9_000
