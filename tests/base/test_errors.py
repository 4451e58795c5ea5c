from __future__ import annotations

import pickle

import pytest

import belated as bl
from belated.base import errors

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


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_come_back_from_other_processes(kind):
    back = pickle.loads(pickle.dumps(kind("words")))  # noqa: S301
    assert type(back) is kind
    assert str(back) == "words"
