from __future__ import annotations

import pytest
from small_logs import log_of


def test_a_log_shows_what_it_is():
    log = log_of(6, outcome=[1, None, 2, 3, None, 4], arrived_at=[3, None, 3, 6, None, 7])
    text = str(log)
    assert text.startswith("Log of 6 rows and 2 arms: 66.7% arrived, assigned from 1 to 6")
    columns = log.to_dict()
    assert columns["arm"] == ["A", "B"]
    assert columns["assigned"] == [3, 3]
    assert columns["share_arrived"] == pytest.approx([2 / 3, 2 / 3])
    assert columns["median_delay"] == [1.0, 1.5]
    assert columns["smallest_propensity"] == [0.5, 0.5]


def test_a_log_in_which_nothing_has_arrived_has_no_delays():
    log = log_of(outcome=[None] * 4, arrived_at=[None] * 4, propensity=[0.5, 0.25, 0.5, 0.125])
    assert "0.0% arrived" in str(log)
    assert "segment" not in str(log)
    assert "only the chosen arm's propensity is known" in str(log)
    assert [str(delay) for delay in log.to_dict()["median_delay"]] == ["nan", "nan"]
    assert log.to_dict()["smallest_propensity"] == [0.5, 0.125]


def test_a_log_with_segments_says_how_many():
    assert str(log_of(400, segment=["x", "y", "y", "x"] * 100)).splitlines()[0].endswith("; 2 segments")
