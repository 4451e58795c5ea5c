from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest

import belated as bl
from belated.base import errors
from belated.base.errors import BelatedWarning, recorded_warnings, without_warnings

ERRORS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]


def test_everything_that_is_raised_on_purpose_has_one_base_and_a_public_name():
    for each in ERRORS:
        assert getattr(bl, each.__name__) is each
        assert issubclass(each, UserWarning if each is bl.BelatedWarning else bl.BelatedError)
    assert issubclass(bl.BelatedError, ValueError)
    assert issubclass(bl.MissingLibraryError, ImportError)


def test_an_error_of_a_log_knows_where_it_is():
    error = bl.LogError("`outcome` in row 3 is 'x'; it must be a number.", column="outcome", row=3)
    assert (error.column, error.row) == ("outcome", 3)
    assert (bl.LogError("").column, bl.LogError("").row) == (None, None)


def test_no_name_in_an_error_can_deceive_a_terminal():
    error = bl.OptionError(f"Unknown key `\x1b[2J` in {errors.argument('arms', chr(7))}; try `\u202eA`, 👩‍👧.")
    assert str(error) == "Unknown key `\\x1b[2J` in `arms='\\x07'`; try `\\u202eA`, 👩‍👧."
    assert error.worded("--{} {}".format) == "Unknown key `\\x1b[2J` in --arms \\x07; try `\\u202eA`, 👩‍👧."


def test_an_error_can_be_about_arguments_of_other_names():
    error = bl.LogError(f"There is no column 'x' for {errors.argument('key', 'x')}.", column="key", row=3)
    renamed = error.renamed(key="unit", other="one")
    assert str(renamed) == "There is no column 'x' for `unit='x'`."
    assert renamed.worded("--{} {}".format) == "There is no column 'x' for --unit x."
    assert (type(renamed), renamed.column, renamed.row) == (bl.LogError, "key", 3)
    assert "`key='x'`" in str(error)


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_come_back_from_other_processes(kind):
    back = pickle.loads(pickle.dumps(kind("words")))  # noqa: S301
    assert type(back) is kind
    assert str(back) == "words"


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


def test_arguments_are_shown_as_each_surface_shows_them():
    error = bl.OptionError(f"{errors.argument('arm')} is 'x'; try {errors.argument('window', '7d')}.")
    assert str(error) == "`arm` is 'x'; try `window='7d'`."
    assert error.worded(lambda name, value: f"--{name} {value}".strip()) == "--arm is 'x'; try --window 7d."
    assert bl.OptionError("It says `arm`.").worded(lambda name, value: "?") == "It says `arm`."
    row = bl.LogError.of_row("outcome", 3, "is 'x'.")
    assert row.worded(lambda name, value: f"--{name}") == "--outcome in row 3 is 'x'."
    assert row.at("the row of key 7").worded(lambda name, value: f"--{name}") == "--outcome in the row of key 7 is 'x'."
