from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from small_logs import HALF, log_of

import belated as bl
from belated.log.clock import NEVER, Clock, as_float_times, read_times


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_datetimes_of_any_unit(unit):
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-02", "2026-01-04"], f"datetime64[{unit}]")
    arrived = [dt.datetime(2026, 1, 2), None, dt.datetime(2026, 1, 3, 12), None]
    log = log_of(outcome=[1, None, 2, None], assigned_at=days, arrived_at=arrived, as_of="2026-01-03")
    assert len(log) == 3
    assert log.arrived.tolist() == [True, False, False, False]
    assert log.schedule.due[0] == 1
    assert "as of 2026-01-03" in str(log)


def test_zoned_datetimes_are_compared_in_utc():
    zone = dt.timezone(dt.timedelta(hours=2))
    assigned = [dt.datetime(2026, 1, 1, 1, tzinfo=zone), dt.datetime(2026, 1, 1, 0, tzinfo=dt.UTC)]
    log = bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=assigned, delay=[dt.timedelta(0), dt.timedelta(hours=1)])
    assert log.assigned_at[0] == np.datetime64("2025-12-31T23:00")
    assert log.at(dt.datetime(2026, 1, 1, 3, tzinfo=zone)).arrived.tolist() == [True, True]
    assert log.at(dt.datetime(2026, 1, 1, 2, 59, tzinfo=zone)).arrived.tolist() == [True, False]


def test_times_of_pandas_keep_their_nanoseconds():
    first, length = pd.Timestamp("2026-01-01 00:00:00.000000123"), pd.Timedelta(5, unit="ns")
    log = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=[first, first + length], delay=[length, None])
    assert log.assigned_at.tolist() == [1767225600000000123, 1767225600000000128]
    assert log.arrived_at[0] == np.datetime64("2026-01-01T00:00:00.000000128", "ns")


def test_durations_may_be_missing():
    assigned = np.array(["2026-01-01"] * 2, "datetime64[s]")
    late = np.array([5, "NaT"], "timedelta64[m]")
    log = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=assigned, delay=late)
    assert log.arrived.tolist() == [True, False]
    nothing = bl.Log(["A", "B"], [None, None], HALF * 2, assigned_at=assigned, arrived_at=[None, None])
    assert nothing.arrived.tolist() == [False, False]


def test_dates_that_do_not_fit_nanoseconds():
    assigned = np.array(["2026-01-01", "2026-01-02"], "datetime64[ns]")
    arrived = np.array(["2026-01-01", "9999-12-31"], "datetime64[s]")
    log = bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=assigned, arrived_at=arrived, as_of="2026-06-01")
    assert log.arrived.tolist() == [True, False]
    assert len(bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=assigned, as_of="9999-12-31")) == 2
    assert len(bl.Log(["A", "B"], [1, 2], HALF * 2, assigned_at=assigned, as_of=dt.datetime(1, 1, 1))) == 0


@pytest.mark.parametrize(
    "as_of", ["20260102", "2026-01-02T00:00Z", "2026-01-02T02:00+02:00", np.datetime64("2026-01-02")]
)
def test_moments_are_read_as_iso_says(as_of):
    assigned = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], ">M8[s]")
    log = bl.Log(["A", "B", "A"], [1, 2, 3], HALF * 3, assigned_at=assigned, as_of=as_of)
    assert len(log) == 2
    with pytest.raises(bl.OptionError):
        log.at(np.int64(5))
    with pytest.raises(bl.OptionError):
        log.at(["2026-01-02"])


def test_lists_of_numpy_times_may_have_gaps():
    assigned = [np.datetime64("2026-01-01"), np.datetime64("2026-01-02T05", "h")]
    log = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=assigned, arrived_at=[assigned[0], None])
    assert log.arrived.tolist() == [True, False]
    late = bl.Log(["A", "B"], [1, None], HALF * 2, assigned_at=assigned, delay=[np.timedelta64(3, "h"), None])
    assert late.arrived_at[0] == np.datetime64("2026-01-01T03")


def test_numbers_and_datetimes_do_not_mix():
    assigned = np.array(["2026-01-01"] * 4, "datetime64[s]")
    with pytest.raises(bl.LogError, match="durations"):
        log_of(assigned_at=assigned, arrived_at=None, delay=[1] * 4)
    with pytest.raises(bl.OptionError, match="it must be a"):
        log_of(as_of="2026-01-01")
    with pytest.raises(bl.OptionError, match="such as '2026-03-01'"):
        log_of(assigned_at=assigned, arrived_at=assigned, as_of=3)
    with pytest.raises(bl.OptionError, match="such as '2026-03-01'"):
        log_of(assigned_at=assigned, arrived_at=assigned, as_of="yesterday")


def test_a_second_has_a_thousand_times_as_many_of_each_finer_unit():
    assert [Clock(unit).per_second for unit in (None, "s", "ms", "ns", "as")] == [1, 1, 10**3, 10**9, 10**18]
    assert [Clock(unit).per_microsecond for unit in (None, "s", "ms", "us", "ns", "as")] == [
        1, Fraction(1, 10**6), Fraction(1, 1000), 1, 1000, 10**12,
    ]  # fmt: skip


def test_a_moment_becomes_a_number_and_comes_back():
    assert Clock().read("as_of", 3.9) == 3
    assert Clock().read("as_of", -np.inf) == NEVER + 1
    assert Clock(whole=False).read("as_of", 3.9) == 3.9
    clock = Clock(unit="us")
    number = clock.read("as_of", "2026-03-01T12:00")
    assert clock.show(number) == np.datetime64("2026-03-01T12:00")
    assert clock.text(clock.read("as_of", dt.date(2026, 3, 1))) == "2026-03-01"
    assert clock.show_delay(1e6) == np.timedelta64(1, "s")
    assert Clock().text(1234) == "1,234"
    for moment in (None, "3", True, np.nan):
        with pytest.raises(bl.OptionError, match=r"`as_of` is .*; it must be a number"):
            Clock().read("as_of", moment)


def test_times_of_whole_numbers_and_fractions_are_one_clock():
    assigned, arrived, clock = read_times([1, 2], [1.5, None], None, 2)
    assert not clock.whole
    assert assigned.tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(arrived, [1.5, np.nan])
    assigned, arrived, clock = read_times(None, None, [0, 3], 2)
    assert (assigned, arrived.tolist(), clock) == (None, [1, 5], Clock())
    np.testing.assert_array_equal(as_float_times(np.array([NEVER, 2])), [np.nan, 2.0])


@pytest.mark.parametrize(
    ("assigned", "arrived"),
    [
        ([0, 2**63 - 3, 2**63 + 3], None),
        ([0, 2**64, 5], None),
        ([-(2.0**63), 1.0, 2.0], None),
        ([1, 2, 3], [None, 2**63, 4]),
        ([1, 2, 3], [2.0**63, math.nan, math.inf]),
        ([1 - 2**63, 0, 5], None),
        ([-(2**62), 0, 5], [2**62, 1, 6]),
    ],
)
def test_times_that_do_not_fit_64_bits_are_not_rounded(assigned, arrived):
    with pytest.raises(bl.LogError, match="too large or too far apart"):
        read_times(assigned, arrived, None, 3)


def test_large_whole_numbers_beside_missing_ones_keep_their_digits():
    assert read_times([1, 2], [None, 2**62 + 1], None, 2)[1].tolist() == [NEVER, 2**62 + 1]


def test_a_delay_may_be_longer_than_64_bits():
    assert read_times([1, 2], None, [1e300, 3.0], 2)[1].tolist() == [1e300, 5.0]
