"""Checkers of single options: each returns the value it was given, or raises one sentence."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

from belated.base.errors import OptionError, argument
from belated.base.text import one_line, shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from belated.base.columns import Array

#: Options of a function by name, to be passed on to it: each has a type of its own, which the function checks.
Options: TypeAlias = dict[str, Any]

#: The largest error of a probability that was rounded to 6 decimals.
ROUNDING = 0.5e-6 * (1 + 1e-9)  # a sum of 1.000001 passes, in whichever order it was added up

#: How far one probability may be above 1, and two may be from summing to 1; `tolerance` is for sums of any number.
TOLERANCE = 2 * ROUNDING

#: The largest outcome, up or down: its fourth power, times any number of rows, is still a number.
LARGEST_OUTCOME = 1e60

#: The largest finite number.
LARGEST_FLOAT = sys.float_info.max

#: A difference below this share of the values is a rounding error: such values do not vary.
NO_DIFFERENCE = 1e-12

#: Stands for 0 where a logarithm, a quotient or a quantile is taken; its inverse is still a number.
TINY = 1e-300

#: The smallest probability that a chosen arm can have: a smaller one is a mistake, and its inverse could overflow.
LEAST_PROBABILITY = 1e-30

#: Letters of a misspelt word that are looked at.
_LONGEST = 60

_Word = TypeVar("_Word", bound=str)


def tolerance(arms: int) -> float:
    """Return how far from 1 the probabilities of some arms may sum: the rounding error of 6 decimals."""
    return ROUNDING * max(arms, 2)


def are_shares(values: ArrayLike) -> Array:
    """Whether the numbers along the last axis are not negative and sum to 1."""
    import numpy as np  # the help is shown without it

    numbers = np.asarray(values, dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        total = numbers.sum(axis=-1)
    return np.asarray((numbers >= 0).all(axis=-1) & (np.abs(total - 1) <= tolerance(numbers.shape[-1])))


def check_shares(name: str, given: object, values: ArrayLike, parts: str = "probabilities") -> None:
    """Raise if a number is negative or the sum is not 1; `parts` says what the numbers are."""
    if not are_shares(values).all():
        raise OptionError(f"{name} is {shown(given)}; its {parts} must not be negative and must sum to 1.")


def outcome_fault(value: float) -> str | None:
    """Return what is wrong with an outcome that has arrived, or None."""
    if abs(value) <= LARGEST_OUTCOME:
        return None
    if not math.isfinite(value):
        return f"is {value}; it must be a finite number"
    return f"is {value}; it must lie between -{LARGEST_OUTCOME:g} and {LARGEST_OUTCOME:g}, so use a larger unit"


def one_of(name: str, value: object, choices: Iterable[_Word]) -> _Word:
    """Return the one of `choices` that `value` is."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return options[options.index(value)]
    near = nearest(value, options) if isinstance(value, str) else None
    hint = f" Did you mean {near!r}?" if near else ""
    known = ", ".join(map(repr, options))
    raise OptionError(f"{argument(name)} is {shown(value)}; it must be one of {known}.{hint}")


def fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = real(name, value)
    if not 0 < number < 1:
        raise OptionError(f"{argument(name)} is {shown(value)}; it must lie strictly between 0 and 1.")
    return number


def real(name: str, value: object) -> float:
    """Return `value` as a finite float."""
    number = math.nan
    is_truth = isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"
    if isinstance(value, (SupportsFloat, SupportsIndex)) and not isinstance(value, (str, bytes)) and not is_truth:
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise OptionError(f"{argument(name)} is {shown(value)}; it must be a finite number.")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` as a float above 0."""
    number = real(name, value)
    if number <= 0:
        raise OptionError(f"{argument(name)} is {shown(value)}; it must be above 0.")
    return number


def probability(name: str, value: object) -> float:
    """Return `value` as a float in [0, 1]."""
    number = real(name, value)
    if not 0 <= number <= 1:
        raise OptionError(f"{argument(name)} is {shown(value)}; it must lie in [0, 1].")
    return number


def whole(name: str, value: object, *, least: int) -> int:
    """Return `value` as an integer of at least `least`."""
    number = least - 1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):
            number = operator.index(value)
    if number < least:
        raise OptionError(f"{argument(name)} is {shown(value)}; it must be a whole number, {least} or more.")
    return number


# ---------------------------------------------------------------- misspelt words


def no_name(role: str, value: object) -> OptionError:
    """Return the error of an option that should name a column, and is something else, such as the column itself."""
    words = one_line(repr(value)) if isinstance(value, Hashable) else f"of type {type(value).__name__}"
    return OptionError(f"{argument(role)} is {words}; it must be the name of a column.")


def nearest(word: object, names: Iterable[object]) -> str | None:
    """Return the name that a misspelt word is most likely meant as, in any case; None: none is near.

    Examples
    --------
    >>> nearest("diapw", ["mean", "dipw", "daipw"])
    'daipw'
    """
    text = (word if isinstance(word, str) else shown(word)).casefold()[:_LONGEST]
    most = max(1, len(text) // 3)
    ranked = [
        (_edits(text, name.casefold()[:_LONGEST]), abs(len(text) - len(name)), name)
        for name in map(str, names)
        if abs(len(text) - min(len(name), _LONGEST)) <= most
    ]
    edits, _, name = min(ranked, key=lambda rank: rank[:2], default=(most + 1, 0, ""))
    return name if edits <= most and edits < len(text) else None


def _edits(one: str, other: str) -> int:
    """Return how many letters must be changed, added, left out or swapped with the next to get from word to word."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one):
        last, before, row = before, row, [i + 1]
        for j, b in enumerate(other):
            least = min(before[j + 1] + 1, row[j] + 1, before[j] + (a != b))
            if i and j and a == other[j - 1] and b == one[i - 1]:
                least = min(least, last[j - 1] + 1)
            row.append(least)
    return row[-1]
