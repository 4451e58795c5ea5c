from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import belated as bl
from belated.log.clock import Clock
from belated.log.durations import Window, length_on, longest_of, read_window


def test_windows():
    same = ["2d", "48h", "48 hours", "2 days", "2880min", dt.timedelta(days=2), np.timedelta64(2, "D"), "172800s"]
    assert {read_window(window).length for window in same} == {2 * 86400 * 10**6}
    assert read_window(7) == read_window("7 steps") == read_window(7.0) == read_window(np.int64(7))
    assert read_window("1.5h").length == 5400 * 10**6
    assert [read_window(w).text for w in ("7d", "1h", 1, 2.5)] == ["7 days", "1 hour", "1 step", "2.5 steps"]
    for window in (
        0,
        -1,
        "0d",
        "7 moons",
        "-3d",
        True,
        np.nan,
        np.inf,
        dt.timedelta(0),
        np.timedelta64("NaT", "s"),
        "d",
    ):
        with pytest.raises(bl.OptionError, match=r"`window` is .*; it must be a positive number of steps"):
            read_window(window)


def test_a_window_is_counted_in_any_unit():
    units = ("s", "ms", "us", "ns", "ps", "fs", "as")
    assert [length_on(Clock(unit), "2s") for unit in units] == [2 * 1000**i for i in range(7)]
    assert length_on(Clock("s"), "1999ms") == 1


@pytest.mark.parametrize("windows", ["7d", b"7d", [], None])
def test_windows_are_a_list_that_is_not_empty(windows):
    assert longest_of(["1d", "7d"]).text == "7 days"
    with pytest.raises(bl.OptionError, match="`windows` must be a list of windows, such as"):
        longest_of(windows)


def test_a_window_is_read_once():
    window = read_window("90s")
    assert window == Window(90 * 10**6, is_time=True, text="90 seconds")
    assert read_window(window) is window


def test_a_duration_is_shown_in_its_largest_whole_unit():
    assert read_window(dt.timedelta(hours=36)).text == "36 hours"
    assert read_window(dt.timedelta(weeks=1)).text == "1 week"
    assert read_window(np.timedelta64(1500, "ms")).text == "1,500 milliseconds"
