from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

from belated.base.errors import BelatedWarning
from belated.base.quiet import recorded_warnings, without_warnings


def test_warnings_are_kept_and_not_shown():
    with recorded_warnings() as sentences:
        for _ in range(2):
            warnings.warn("Few outcomes.", BelatedWarning, stacklevel=1)
    assert sentences == ["Few outcomes."] * 2


def test_only_the_warnings_of_this_library_are_not_said():
    with without_warnings():
        warnings.warn("Few outcomes.", BelatedWarning, stacklevel=1)
        with pytest.warns(UserWarning, match="else"):
            warnings.warn("Something else.", UserWarning, stacklevel=1)


def test_threads_hear_their_own_warnings_and_leave_the_filters_as_they_were():
    before = list(warnings.filters)

    def hear(number):
        with recorded_warnings() as sentences:
            sleep(0.001 * (number % 3))
            warnings.warn(f"{number}", BelatedWarning, stacklevel=1)
            with without_warnings():
                sleep(0.001)
        return sentences

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(hear, range(12))) == [[str(number)] for number in range(12)]
    assert warnings.filters == before
