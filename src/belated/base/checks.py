"""Checkers of single options: each returns the value it was given, or raises one sentence."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import suppress
from typing import SupportsFloat, SupportsIndex, TypeVar

from belated.base.errors import OptionError, argument
from belated.base.words import nearest

#: How far probabilities may be from summing to 1.
TOLERANCE = 1e-6 * (1 + 1e-9)  # a sum of 1.000001 passes, in whichever order it was added up

_Word = TypeVar("_Word", bound=str)


def one_of(name: str, value: object, choices: Iterable[_Word]) -> _Word:
    """Return the one of `choices` that `value` is."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return options[options.index(value)]
    near = nearest(value, options) if isinstance(value, str) else None
    hint = f" Did you mean {near!r}?" if near else ""
    known = ", ".join(map(repr, options))
    raise OptionError(f"{argument(name)} is {value!r}; it must be one of {known}.{hint}")


def fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = real(name, value)
    if not 0 < number < 1:
        raise OptionError(f"{argument(name)} is {value!r}; it must lie strictly between 0 and 1.")
    return number


def real(name: str, value: object) -> float:
    """Return `value` as a finite float."""
    number = math.nan
    is_truth = isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"
    if isinstance(value, (SupportsFloat, SupportsIndex)) and not isinstance(value, (str, bytes)) and not is_truth:
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise OptionError(f"{argument(name)} is {value!r}; it must be a finite number.")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` as a float above 0."""
    number = real(name, value)
    if number <= 0:
        raise OptionError(f"{argument(name)} is {value!r}; it must be above 0.")
    return number


def probability(name: str, value: object) -> float:
    """Return `value` as a float in [0, 1]."""
    number = real(name, value)
    if not 0 <= number <= 1:
        raise OptionError(f"{argument(name)} is {value!r}; it must lie in [0, 1].")
    return number


def whole(name: str, value: object, *, least: int) -> int:
    """Return `value` as an integer of at least `least`."""
    number = least - 1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):
            number = operator.index(value)
    if number < least:
        raise OptionError(f"{argument(name)} is {value!r}; it must be a whole number, {least} or more.")
    return number
