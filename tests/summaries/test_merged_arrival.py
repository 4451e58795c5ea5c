"""How likely outcomes of merged segments arrive, as their counts show it."""

from __future__ import annotations

import numpy as np
import pytest
from naive.segments import merged_chances

from belated.summaries.merged_arrival import MergedArrival, unseen
from belated.summaries.segments import lay_out


def counts(seed, segments=12, arms=2):
    """Return rows and outcomes by segment and arm; outcomes of every other segment arrive less."""
    rng = np.random.default_rng(seed)
    assigned = rng.integers(0, 9, (segments, arms))
    return assigned, rng.binomial(assigned, np.where(np.arange(segments) % 2, 0.3, 0.9)[:, np.newaxis])


@pytest.mark.parametrize("seed", range(5))
def test_chances_agree_with_a_slow_twin(seed):
    assigned, arrived = counts(seed)
    merged = np.arange(12) > 1
    cells = [list(zip(n.tolist(), r.tolist(), strict=True)) for n, r in zip(assigned[2:], arrived[2:], strict=True)]
    arrival = MergedArrival.of(assigned, arrived, merged)
    np.testing.assert_allclose(arrival.chance[2:], merged_chances(cells), rtol=1e-12)
    assert (arrival.chance[:2] == 1).all()
    # the weights of arrived rows stay 1 on average
    np.testing.assert_allclose((arrived / arrival.chance)[2:].sum(axis=0), arrived[2:].sum(axis=0), rtol=1e-12)


def test_an_arm_without_outcomes_and_one_with_all_of_them_keep_their_weights():
    assigned = np.array([[20, 5, 4], [20, 5, 4]])
    arrived = np.array([[20, 0, 4], [5, 0, 4]])
    arrival = MergedArrival.of(assigned, arrived, np.ones(2, bool))
    assert arrival.chance[0, 0] > 1 > arrival.chance[1, 0]
    assert (arrival.chance[:, 1:] == 1).all()


@pytest.mark.parametrize("arrived", [[[6, 3], [6, 3]], [[8, 4], [8, 4]], [[0, 0], [0, 0]]])
def test_segments_whose_outcomes_arrive_alike_have_no_chances(arrived):
    assert MergedArrival.of(np.array([[8, 4], [8, 4]]), np.array(arrived), np.ones(2, bool)) is None


def test_many_rows_do_not_underflow():
    arrival = MergedArrival.of(np.array([[10**6, 1], [10**6, 1]]), np.array([[10**6, 1], [10**5, 1]]), np.ones(2, bool))
    np.testing.assert_allclose(arrival.chance[0, 0] / arrival.chance[1, 0], 10.0, rtol=1e-9)


def test_rows_in_segments_without_an_outcome_are_counted():
    assigned, arrived = np.array([[3, 5], [7, 5], [10, 90]]), np.array([[0, 2], [1, 0], [0, 80]])
    np.testing.assert_allclose(unseen(assigned, arrived, np.array([True, True, False])), [3 / 20, 5 / 100])


def test_a_layout_has_chances_only_if_it_knows_the_rows_of_merged_segments():
    arrived, assigned = np.array([[20, 20], [3, 6], [6, 7]]), np.array([[40, 40], [9, 60], [7, 7]])
    layout = lay_out(("DE", "FR", "IT"), arrived, assigned=assigned)
    assert layout.merged == ("FR", "IT")
    assert layout.arrival.chance[1, 1] < 1 < layout.arrival.chance[2, 1]
    assert lay_out(("DE", "FR", "IT"), arrived).arrival is None
    assert lay_out(("DE", "FR"), np.full((2, 2), 9), assigned=np.full((2, 2), 10)).unseen is None
