from __future__ import annotations

import pytest

import belated as bl


def test_one_delay_for_all_or_one_for_each():
    late = bl.delays.poisson(3)
    shared = bl.Bandit({"A": bl.arms.normal(1.0), "B": bl.arms.bernoulli(0.2)}, late)
    assert shared.delay("A") == shared.delay("B") == late
    assert shared.means == {"A": 1.0, "B": 0.2}
    own = bl.Bandit(shared.arms, {"B": late})
    assert own.delay("A") == bl.delays.none()
    assert own.delay("B") == late


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (({},), "must map labels to arms"),
        (({"A": 1.0},), "`arms['A']` is 1.0; it must be an arm, such as arms.normal(1.0)."),
        (({"A": bl.arms.normal()}, 3), "`delays` is 3; it must be a delay, or map arms to delays."),
        (({"A": bl.arms.normal()}, {"A": 3}), "`delays['A']` is 3; it must be a delay, such as delays.poisson(5)."),
        (({"A": bl.arms.normal()}, {"B": bl.delays.none()}), "`delays` names 'B', which is not one of the arms ['A']."),
    ],
)
def test_what_is_no_bandit_is_refused(options, sentence):
    with pytest.raises(bl.OptionError) as caught:
        bl.Bandit(*options)
    assert sentence in str(caught.value)
