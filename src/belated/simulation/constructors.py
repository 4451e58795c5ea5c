"""Constructors that store their name and options in the result, so that it can be shown, written and rebuilt."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import ParamSpec, SupportsFloat, SupportsIndex, TypeVar

import numpy as np

from belated.base.columns import Array, ByArm
from belated.base.errors import OptionError


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Constructed:
    """An object that stores the call that made it; equal if all compared fields are, including samples."""

    constructor: str = field(default="", compare=False)
    options: Mapping[str, Argument] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        shown = (_shown(name, value) for name, value in self.options.items() if value is not None)
        return f"{self.constructor or type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return tuple(_comparable(getattr(self, each.name)) for each in fields(self) if each.compare)


def _comparable(value: object) -> object:
    """Return a key for comparing values in which NaN, as the mean of a Cauchy distribution, equals another NaN."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return None if isinstance(value, float) and value != value else value


#: An option of a constructor: a number, a sample, shares by label, or a distribution.
Argument = int | float | Array | ByArm[float] | Constructed | None

#: Every constructor, by module and name.
CONSTRUCTORS: dict[str, dict[str, Callable[..., Constructed]]] = {}

P = ParamSpec("P")
T = TypeVar("T", bound=Constructed)


def constructor(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function store its name and options in its result; an option that is a function cannot be written."""
    signature = inspect.signature(function)

    @wraps(function)
    def construct(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = function(*args, **kwargs)
        except OverflowError:
            raise OptionError(f"An option of `{function.__name__}` is too large.") from None
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        given = {name: value for name, value in call.arguments.items() if name != "function"}
        held = {name: getattr(result, name) for name in ("values", "shares") if name in given}
        options = {name: held[name] if name in held else _plain(value) for name, value in given.items()}
        return replace(result, constructor=construct.__name__, options=options)

    CONSTRUCTORS.setdefault(construct.__module__, {})[construct.__name__] = construct
    return construct


def _plain(number: SupportsIndex | SupportsFloat | Constructed | None) -> int | float | Constructed | None:
    """Return a number of any type, such as NumPy's, as a Python number; leave a distribution as it is."""
    if number is None or isinstance(number, Constructed):
        return number
    if isinstance(number, SupportsIndex):
        try:
            return operator.index(number)
        except TypeError:  # an array of one
            pass
    return float(number)


def _shown(name: str, value: Argument) -> str:
    if isinstance(value, np.ndarray):
        return f"<{len(value):,} value{'s' * (len(value) != 1)}>"
    return f"{name}={value!r}"
