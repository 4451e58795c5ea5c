from __future__ import annotations

import numpy as np
import pytest
from small_logs import log_of

import belated as bl
from belated.kernels.rows import Times
from belated.log.clock import NEVER, Clock
from belated.log.row_checks import Columns, check_rows


def test_the_first_of_several_bad_rows_is_named():
    with pytest.raises(bl.LogError) as caught:
        log_of(outcome=[1, 1, np.nan, 1], propensity=[[0.5, 0.5]] * 3 + [[0.9, 0.9]])
    assert caught.value.row == 2


def test_a_bad_row_far_down_is_named():
    n = 1_200_000  # long enough to be checked in stretches
    pi = np.full(n, 0.5)
    pi[1_100_000] = 2.0
    pi[1_150_000] = 0.0
    with pytest.raises(bl.LogError) as caught:
        bl.Log(np.zeros(n, dtype=int), np.zeros(n), pi)
    assert caught.value.row == 1_100_000


def columns(outcome, propensity, arrived):
    rows = len(outcome)
    times = Times(np.arange(1, rows + 1), np.array(arrived), np.iinfo(np.int64).max, NEVER)
    return Columns(np.arange(rows, dtype=np.uint16) % 2, np.array(outcome), np.array(propensity), times, 2)


def test_sound_rows_tell_the_outcome_and_propensity_of_the_least_likely():
    sound = columns([1.0, 2.0, 3.0, np.nan], [[0.5, 0.5], [0.5, 0.5], [0.1, 0.9], [0.9, 0.1]], [1, 2, 3, NEVER])
    (anchors,), (rarest,) = check_rows(("A", "B"), sound, Clock())
    assert anchors.tolist() == [3.0, 2.0]
    assert rarest.tolist() == [0.1, 0.5]


def test_a_row_is_named_by_its_number_or_by_its_place():
    bad = columns([1.0, 2.0], [[0.5, 0.5], [0.5, 0.6]], [1, 2])
    with pytest.raises(bl.LogError, match=r"^`propensity` in row 11 sums to 1\.1; it must") as caught:
        check_rows(("A", "B"), bad, Clock(), before=10)
    error = caught.value
    assert (error.column, error.row) == ("propensity", 11)
    renamed = error.at("the row of key 7")
    assert str(renamed) == "`propensity` in the row of key 7 sums to 1.1; it must sum to 1 (within 1e-6)."
    assert (renamed.column, renamed.row) == ("propensity", None)
    other = bl.LogError("The table has no rows.")
    assert other.at("the row of key 7") is other


def test_arrivals_before_the_assignment_are_refused():
    early = columns([1.0, 2.0], [0.5, 0.5], [1, 1])
    with pytest.raises(bl.LogError, match=r"`arrived_at` in row 1 is 1, before its assignment at 2"):
        check_rows(("A", "B"), early, Clock())


@pytest.mark.parametrize("arms", [2, 3, 10, 80])
def test_probabilities_rounded_to_six_decimals_sum_to_one(arms):
    rounded = np.random.default_rng(arms).dirichlet(np.full(arms, 5.0), 2_000).round(6)
    assert arms < 10 or abs(rounded.sum(axis=1) - 1).max() > 1e-6
    log = bl.Log(np.arange(2_000) % arms, np.zeros(2_000), rounded, arms=range(arms))
    assert len(log) == 2_000


def test_probabilities_with_fewer_decimals_are_refused_with_advice():
    row = [0.999987, 0.000004, 0.000004, 0.000004, 0.000004]
    words = r"sums to 1\.000003; it must sum to 1 \(within 2\.5e-6\); if the probabilities were rounded, log at least 6"
    with pytest.raises(bl.LogError, match=words):
        bl.Log([0], [1.0], [row], arms=range(5))


@pytest.mark.parametrize("times", [{}, {"delay": [0, 1, 2, 3]}])
def test_outcomes_whose_powers_are_no_numbers_are_refused(times):
    bl.estimate(bl.Log(list("ABAB"), [1e60, -1e60, 0.0, 1.0], [[0.5, 0.5]] * 4, **times))
    with pytest.raises(bl.LogError, match=r"^`outcome` in row 1 is -1e\+61; it must lie between -1e\+60 and 1e\+60"):
        bl.Log(list("ABAB"), [1.0, -1e61, 2.0, 3.0], [[0.5, 0.5]] * 4, **times)
