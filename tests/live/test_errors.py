from __future__ import annotations

import pytest

from belated.live import errors
from belated.live.errors import legible, unharmed

#: What happens to values that are not of their kind.
ODD = [ValueError("x"), TypeError("x"), KeyError("x"), IndexError("x"), AttributeError("x"), ZeroDivisionError("x")]

KINDS = [each for each in vars(errors).values() if isinstance(each, type) and each.__module__ == errors.__name__]


def test_every_error_is_one_of_live_experiments():
    assert len(KINDS) > 10
    assert [each for each in KINDS if not issubclass(each, errors.LiveError)] == []


def test_what_may_be_asked_again_is_a_failure_of_the_storage():
    again = {each for each in KINDS if issubclass(each, errors.StorageError)}
    assert again == {errors.StorageError, errors.CrossedError, errors.DamagedError, errors.OverloadedError}


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_a_value_that_cannot_be_read_is_one_sentence(error):
    words = "^The store is damaged: a policy cannot be read; restore a backup"
    with pytest.raises(errors.StorageError, match=words) as caught, legible("a policy"):
        raise error
    assert caught.value.__suppress_context__
    words = "^shop is damaged: a value in it is not of its kind; check it"
    with pytest.raises(errors.StorageError, match=words) as caught, unharmed("shop"):
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("guard", [legible, unharmed])
def test_other_errors_stay_what_they_are(guard):
    for error in (errors.ClosedError("closed"), OSError("disk"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, guard("shop"):
            raise error
        assert caught.value is error
