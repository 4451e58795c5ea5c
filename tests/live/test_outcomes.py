from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated.live.outcomes import outcome_from

OUTCOMES = [bl.live.binary(), bl.live.real(), bl.live.bounded(-1, 5), bl.live.events("12h", "sum")]


def test_a_window_that_is_none_is_told_what_one_is():
    for wrong in (None, "", "-1h", "1x", 5, "7 steps"):
        with pytest.raises(bl.OptionError, match="it must be a duration, such as '7d', '12h'"):
            bl.live.events(wrong)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: outcome.kind)
def test_an_outcome_is_read_from_its_table(outcome):
    assert outcome_from(outcome.to_dict()) == outcome


@pytest.mark.parametrize(
    ("outcome", "values", "wrong", "words"),
    [
        (bl.live.binary(), [0, 1.0, True, np.bool_(False)], [0.5, 2, -1], "a binary outcome must be 0 or 1"),
        (bl.live.bounded(-1, 5), [-1, 5, np.float64(0.5)], [5.1, -1.1], "it must lie between -1 and 5"),
        (bl.live.real(), [-1e9, np.int64(3)], [float("nan"), float("inf"), "1", None], "must be a finite number"),
    ],
    ids=["binary", "bounded", "real"],
)
def test_values_are_numbers_that_the_outcome_can_have(outcome, values, wrong, words):
    for value in values:
        assert outcome.read(value) == float(value)
        assert type(outcome.read(value)) is float
    for value in wrong:
        with pytest.raises(bl.OptionError, match=words):
            outcome.read(value)


def test_only_events_have_a_window():
    assert [outcome.is_events for outcome in OUTCOMES] == [False, False, False, True]
    assert [outcome.length for outcome in OUTCOMES] == [0, 0, 0, 12 * 3600 * 10**6]


def test_the_sequence_is_the_narrowest_that_the_outcome_allows():
    assert [outcome.sequence[0] for outcome in OUTCOMES] == ["beta_binomial", "asymptotic", "bernstein", "asymptotic"]
    assert bl.live.bounded(-1, 5).sequence[1] == (-1.0, 5.0)
    assert bl.live.events("1h").sequence == ("beta_binomial", None)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, 1e308)])
def test_bounds_that_cannot_be_are_refused(bounds):
    with pytest.raises(bl.OptionError, match="the first must be less"):
        bl.live.bounded(*bounds)
