from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.simulation.contextual import is_plain


def test_one_delay_for_all_or_one_for_each():
    late = bl.delays.poisson(3)
    shared = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.bernoulli(0.2)}, late)
    assert shared.delay("A") == shared.delay("B") == late
    assert shared.means == {"A": 1.0, "B": 0.2}
    own = bl.Bandit(shared.arms, {"B": late})
    assert own.delay("A") == bl.delays.none()
    assert own.delay("B") == late


@pytest.mark.parametrize(
    "bandit",
    [
        bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.bernoulli(0.2)}, {"B": bl.delays.poisson(3)}),
        bl.Bandit({"A": bl.arms.events(0.1), "B": bl.arms.events(0.2)}, bl.delays.geometric(5), window=10),
    ],
)
def test_without_segments_it_answers_as_a_bandit_with_one(bandit):
    alone = bl.ContextualBandit({"all": bandit})
    assert (bandit.labels, alone.labels) == ((), ("all",))
    assert bandit.parts == alone.parts == (bandit,)
    assert bandit.cell_arms == alone.cell_arms
    assert bandit.cell_delays == alone.cell_delays
    np.testing.assert_array_equal(bandit.mix, alone.mix)
    np.testing.assert_array_equal(bandit.mean_matrix, alone.mean_matrix)
    assert is_plain(bandit) == (bandit.window is None)
    assert not is_plain(alone)


def test_the_measure_of_events_is_the_sum_if_they_have_values():
    plain, valued = bl.arms.events(0.1), bl.arms.events(0.1, bl.arms.exponential(2.0))
    assert bl.Bandit({"A": plain}, window=5).measure == "indicator"
    assert bl.Bandit({"A": valued}, window=5).measure == "sum"
    assert bl.Bandit({"A": valued}, window=5, measure="count").measure == "count"
    assert bl.Bandit({"A": valued}, window=5) == bl.Bandit({"A": valued}, window=5, measure="sum")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (({},), "must map labels to arms"),
        (({"A": 1.0},), "`arms['A']` is 1.0; it must be an arm, such as arms.normal(1.0)."),
        (({"A": bl.arms.normal()}, 3), "`delays` is 3; it must be a delay, or map arms to delays."),
        (({"A": bl.arms.normal()}, {"A": 3}), "`delays['A']` is 3; it must be a delay, such as delays.poisson(5)."),
        (({"A": list(range(1000))},), "…"),
        (({"A": bl.arms.normal()}, {"B": bl.delays.none()}), "`delays` names 'B', which is not one of the arms ['A']."),
        (({"A": bl.arms.normal()}, bl.delays.none(), 5), "`window` is for arms of events, such as arms.events(0.1)."),
        (({"A": bl.arms.normal()}, bl.delays.none(), None, "sum"), "`measure` is for arms of events"),
        (({"A": bl.arms.events(0.1)},), "`window` is missing; events need the number of steps in which they count."),
        (({"A": bl.arms.events(0.1)}, bl.delays.none(), 0), "`window` is 0; it must be"),
        (({"A": bl.arms.events(0.1)}, bl.delays.none(), 2**40), "it must be at most 2**31 steps."),
        (
            ({"A": bl.arms.events(0.1), "B": bl.arms.normal()}, bl.delays.none(), 5),
            "`arms['B']` is normal(mean=0.0, sd=1.0), but other arms are events; all must be.",
        ),
        (({"A": bl.arms.events(0.1)}, bl.delays.none(), 5, "mean"), "`measure` is 'mean'; it must be one of"),
        (
            ({"A": bl.arms.events(0.1, bl.arms.normal()), "B": bl.arms.events(0.1)}, bl.delays.none(), 5),
            "The sum of values is the outcome, but the events of `arms['B']` have no `value`.",
        ),
    ],
)
def test_what_is_no_bandit_is_refused(options, sentence):
    with pytest.raises(bl.OptionError) as caught:
        bl.Bandit(*options)
    assert sentence in str(caught.value)
