"""The build-up of events after the assignment, and estimates for several windows."""

from __future__ import annotations

import numpy as np
import pytest
from reports.samples import event_log

import belated as bl


@pytest.fixture(scope="module")
def est():
    return bl.estimate(event_log())


def test_the_build_up_is_the_estimate_of_each_age_and_ends_with_the_window(est):
    buildup = est.buildup(5)
    assert len(buildup) == 5
    assert buildup.ages == pytest.approx((2.0, 4.0, 6.0, 8.0, 10.0))
    assert buildup.names == ("2 steps", "4 steps", "6 steps", "8 steps", "10 steps")
    assert buildup.arms == est.arms
    for age, answer, difference in zip(buildup.ages, buildup.arm("A"), buildup.contrast("B", "A"), strict=True):
        alone = bl.estimate(event_log(window=age))
        assert answer.estimate == pytest.approx(alone.arm("A").estimate, rel=1e-12)
        assert answer.high == pytest.approx(alone.arm("A").high, rel=1e-9)
        assert difference.low == pytest.approx(alone.contrast("B", "A").low, rel=1e-9)
    assert np.all(np.diff([a.estimate for a in buildup.arm("B")]) >= 0)
    assert buildup.estimates[-1] is est
    assert buildup.arm("A")[-1].estimate == est.arm("A").estimate


def test_ages_of_a_clock_of_whole_numbers_are_whole_and_different():
    buildup = bl.estimate(event_log(whole=True)).buildup(40)
    assert buildup.ages == tuple(range(1, 11))
    assert all(isinstance(age, int) for age in buildup.ages)


def test_the_build_up_prints_as_a_table(est):
    text = str(est.buildup(2))
    assert text.startswith("share with an event by age: 95% score intervals, each for one age")
    assert [line.split()[:3] for line in text.splitlines()[2:]] == [
        ["5", "steps", "A"], ["5", "steps", "B"], ["10", "steps", "A"], ["10", "steps", "B"]
    ]  # fmt: skip


@pytest.mark.parametrize("points", [0, -1, 2.5])
def test_the_number_of_ages_is_positive(est, points):
    with pytest.raises(bl.OptionError, match="points"):
        est.buildup(points)


def test_several_windows_from_the_shortest_to_the_longest(est):
    windows = est.windows([10, "1", 3])
    assert list(windows) == ["1 step", "3 steps", "10 steps"]
    assert len(windows) == 3
    assert windows["10 steps"] is est
    assert windows["3 steps"].values == pytest.approx(est.window(3).values)
    assert windows["3"] is windows["3 steps"]
    assert windows.arm("A")["1 step"].estimate == est.window(1).arm("A").estimate
    assert windows.contrast("B", "A")["3 steps"].p_value == est.window(3).contrast("B", "A").p_value
    assert str(windows).startswith("dipw in 3 windows: 95% intervals")
    with pytest.raises(bl.OptionError, match="'2' is none of the windows: 1 step, 3 steps, 10 steps"):
        windows["2"]


@pytest.mark.parametrize("windows", ["1d", [], None])
def test_windows_are_a_list(est, windows):
    with pytest.raises(bl.OptionError, match="windows"):
        est.windows(windows)


@pytest.mark.parametrize("window", [11, 0, "3d"])
def test_a_window_is_one_that_there_are_events_for(est, window):
    with pytest.raises(bl.OptionError, match="window"):
        est.window(window)


def test_other_outcomes_have_neither_windows_nor_a_build_up():
    est = bl.estimate(event_log().closed())
    assert est.maturity is None
    for ask in (lambda: est.buildup(), lambda: est.windows([1]), lambda: est.window(1)):
        with pytest.raises(bl.OptionError, match="Only a log of events has windows and a build-up"):
            ask()


def test_closed_windows_are_what_has_arrived(est):
    maturity = est.maturity
    assert est.arrived.tolist() == maturity.closed.sum(axis=0).tolist()
    assert (maturity.closed + maturity.open).sum() == len(event_log())
    assert 0 < est.arrived.sum() < est.assigned.sum()
    moved = bl.trajectory(event_log(), at=3)
    assert moved._columns()[-1].name == "closed"
    assert moved._columns()[-1].values[-2:] == est.arrived.tolist()


def test_what_is_said_of_open_windows():
    (note,) = bl.estimate(event_log()).maturity_notes()
    still_open = bl.estimate(event_log()).maturity.open.sum()
    assert note == (
        f"The outcome is what happens within 10 steps of assignment; {still_open:,} rows whose window is still open "
        "count for the ages reached so far."
    )
    assert bl.estimate(event_log(as_of=40.0)).maturity_notes() == []
    early = bl.estimate(event_log(as_of=6.0))
    assert early.maturity.window < 6 < early.maturity.asked == 10
    first, second = early.maturity_notes()
    assert first.startswith("No row of some arm has lived 10 steps yet: this is what happens within 5.9")
    assert "Few rows have lived so long" in second


def test_an_arm_that_nobody_has_lived_with_is_said():
    log = event_log(arms=["A", "B", "C"])
    with pytest.warns(bl.BelatedWarning, match="No row of arm 'C' has lived so long; there is no estimate."):
        assert np.isnan(bl.estimate(log).values[2])


# ---------------------------------------------------------------- figures


def test_few_arms_share_a_facet_and_many_have_one_each(est):
    figure = est.buildup(4).plot()
    (axes,) = figure.axes
    assert axes.get_xlabel() == "steps since assignment"
    assert axes.get_xlim() == (0.0, 10.0)
    assert [line.get_xydata()[0].tolist() for line in axes.get_lines()] == [[0.0, 0.0]] * 2
    assert [line.get_ydata()[-1] for line in axes.get_lines()] == pytest.approx(est.values)
    many = bl.estimate(event_log(names=tuple("ABCDE"))).buildup(4).plot()
    assert [axes.get_title("left") for axes in many.axes] == list("ABCDE")
    assert len({axes.get_ylim() for axes in many.axes}) == 1


def test_answers_by_window_are_drawn_below_each_other(est):
    figure = est.windows([1, 3, 10]).contrast("B", "A").plot()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["1 step", "3 steps", "10 steps"]
