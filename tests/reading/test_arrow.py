from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from belated.log.clock import NEVER, Clock
from belated.reading.arrow import clock_times, floats


def test_null_is_nan_among_floats():
    np.testing.assert_array_equal(floats(pa.array([1.5, None, float("nan")])), [1.5, np.nan, np.nan])
    assert floats(pa.chunked_array([[1, 2], [3]])).dtype == np.float64


def test_times_are_numbers_of_the_clock():
    assert clock_times(pa.array([3, None]), Clock()).tolist() == [3, NEVER]
    np.testing.assert_array_equal(clock_times(pa.array([3, None]), Clock(whole=False)), [3.0, np.nan])
    moments = pa.array([dt.datetime(1970, 1, 1, 0, 0, 1), None])
    assert clock_times(moments, Clock(unit="us")).tolist() == [10**6, NEVER]
    assert clock_times(moments, Clock(unit="ns")).tolist() == [10**9, NEVER]
