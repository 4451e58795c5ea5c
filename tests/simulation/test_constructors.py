from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

from belated.base.errors import OptionError
from belated.simulation import arms, delays, policies
from belated.simulation.constructors import CONSTRUCTORS


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (arms.normal(1.0), "normal(mean=1.0, sd=1.0)"),
        (arms.normal(np.float64(1.0), np.int64(2)), "normal(mean=1.0, sd=2)"),
        (arms.exponential(2.0), "exponential(mean=2.0)"),
        (arms.empirical([1, 2, 2, 5]), "empirical(<4 values>)"),
        (arms.empirical(x for x in [3]), "empirical(<1 value>)"),
        (delays.none(), "none()"),
        (delays.constant(3), "constant(steps=3)"),
        (delays.pareto(0.75).censored(0.5), "pareto(shape=0.75, scale=1.0).censored(0.5)"),
        (delays.empirical(range(1000)).censored(0.1), "empirical(<1,000 values>).censored(0.1)"),
        (policies.uniform(), "uniform()"),
        (policies.fixed({"A": 1}), "fixed(shares={'A': 1.0})"),
        (policies.epsilon_greedy(burn_in=0.1).batched(10), "epsilon_greedy(c=1.0, decay=0.5, burn_in=0.1).batched(10)"),
        (policies.own(max, burn_in=5), "own(burn_in=5)"),
        (arms.Arm("normal", 0.0, 1.0, (0.0, 1.0)), "Arm()"),
    ],
)
def test_what_is_made_reads_like_the_call(thing, shown):
    assert repr(thing) == shown
    assert repr(pickle.loads(pickle.dumps(thing))) == shown  # noqa: S301


@pytest.mark.parametrize("make", [lambda: arms.student_t(1.0), lambda: arms.events(0.3, arms.student_t(1.0))])
def test_distributions_without_a_mean_are_equal(make):
    one = make()
    for other in (make(), pickle.loads(pickle.dumps(one))):  # noqa: S301
        assert other == one
        assert hash(other) == hash(one)
    assert one != arms.student_t(2.0)


def test_options_are_what_a_constructor_was_called_with():
    arm = arms.exponential(2)
    assert (arm.name, arm.constructor, arm.options) == ("gamma", "exponential", {"mean": 2})
    assert arm == arms.gamma(1.0, 2.0)
    assert hash(arm) == hash(arms.gamma(1.0, 2.0))
    assert delays.pareto(1.0).censored(0.5).options == {"shape": 1.0, "scale": 1.0}
    assert policies.ucb(width=2.0).batched(3).options == {"c": 1.0, "decay": 0.5, "width": 2.0, "burn_in": 0.0}
    assert policies.own(max).options == {"burn_in": 0.0}


def test_constructors_keep_their_signature_and_name():
    assert str(inspect.signature(arms.normal)) == "(mean: 'float' = 0.0, sd: 'float' = 1.0) -> 'Arm'"
    assert (arms.normal.__name__, arms.normal.__doc__) == ("normal", "Normal outcomes.")


def test_samples_are_compared():
    assert delays.empirical([1, 2]) == delays.empirical([2, 1])  # sorted
    assert delays.empirical([1, 2]) != delays.empirical([1, 3])
    assert arms.empirical([1, 2, 3]) != arms.empirical([3, 2, 1])  # the same draws in another order
    assert arms.normal() != delays.none()


def arm(**table):
    return {"arms": {"A": {"outcome": {"name": "normal"}} | table}}


def test_every_constructor_is_known_by_module_and_name():
    assert CONSTRUCTORS["belated.simulation.arms"]["gamma"] is arms.gamma
    assert set(CONSTRUCTORS) == {module.__name__ for module in (arms, delays, policies)}


@pytest.mark.parametrize(
    "make",
    [
        lambda: arms.lognormal(scale=1e200),
        lambda: arms.events(0.1, repeats=1e200),
        lambda: policies.thompson_normal(noise_sd=1e200),
    ],
)
def test_an_option_whose_square_is_no_number_is_refused(make):
    with pytest.raises(OptionError, match=r"too large|must lie between"):
        make()
