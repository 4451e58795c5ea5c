"""What an object was made with: enough to show it, to write it down and to make it again."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

#: Every constructor that is described, by module and name.
CONSTRUCTORS: dict[str, dict[str, Callable[..., Any]]] = {}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Described:
    """An object that knows the call that made it, equal to those whose compared fields are, samples included."""

    constructor: str = field(default="", compare=False)
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        shown = (_shown(name, value) for name, value in self.options.items())
        return f"{self.constructor or type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        return self._compared() == other._compared() if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[Any, ...]:
        values = (getattr(self, each.name) for each in fields(self) if each.compare)
        return tuple(value.tobytes() if isinstance(value, np.ndarray) else value for value in values)


P = ParamSpec("P")
T = TypeVar("T", bound=Described)


def described(make: Callable[P, T]) -> Callable[P, T]:
    """Have a constructor leave its name and options in what it makes; a function cannot be written down."""
    signature = inspect.signature(make)

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> T:
        result = make(*args, **kwargs)
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        given = {name: value for name, value in call.arguments.items() if name != "function"}
        held = {name: getattr(result, name) for name in ("values", "shares") if name in given}
        options = {name: held[name] if name in held else _plain(value) for name, value in given.items()}
        return replace(result, constructor=made.__name__, options=options)

    CONSTRUCTORS.setdefault(made.__module__, {})[made.__name__] = made
    return made


def _plain(number: Any) -> int | float:
    """Return a number of any type, NumPy's for one, as Python's."""
    try:
        return operator.index(number)
    except TypeError:
        return float(number)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<{len(value):,} value{'s' * (len(value) != 1)}>"
    return f"{name}={value!r}"
