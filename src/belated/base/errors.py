"""Types of errors and warnings, and context managers that record or suppress warnings.

A message says what is wrong, where, and what would be right.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Self

from belated.base.text import printable

# Python's warning filters are global: two threads that change them at once would interfere
_LOCK = threading.RLock()


# Around an argument in a message; text of users never holds these characters unescaped, as they are not printable
_OPEN, _THEN, _CLOSE = "\ue000", "\ue001", "\ue002"
_ARGUMENT = re.compile(f"{_OPEN}(.*?){_THEN}(.*?){_THEN}(.*?){_CLOSE}", re.DOTALL)


def argument(name: str, value: object = None) -> str:
    """Return an argument, perhaps with a value, for the message of an error.

    The message shows it as `name` or `name=value`; a command line shows it as its option, see `BelatedError.worded`.
    """
    shown, text = ("", "") if value is None else (repr(value), str(value))
    return f"{_OPEN}{name}{_THEN}{shown}{_THEN}{text}{_CLOSE}"


# ---------------------------------------------------------------- errors


class BelatedError(ValueError):
    """The base class of all errors of belated.

    Characters that are not printable are escaped in its message, because names in a file could otherwise send control
    sequences to a terminal.
    """

    def __init__(self, message: str = "") -> None:
        sentence = _ARGUMENT.sub(lambda match: f"`{match[1]}{'=' if match[2] else ''}{match[2]}`", message)
        super().__init__(printable(sentence))
        self._message = message

    def worded(self, show: Callable[[str, str], str]) -> str:
        """Return the message with every argument as `show(name, value)` writes it; the value is "" if there is none."""
        return printable(_ARGUMENT.sub(lambda match: show(match[1], match[3]), self._message))

    def renamed(self, **names: str) -> Self:
        """Return the same error with other names of its arguments, such as ``renamed(key="unit")``."""

        def rename(match: re.Match[str]) -> str:
            return f"{_OPEN}{names.get(match[1], match[1])}{_THEN}{match[2]}{_THEN}{match[3]}{_CLOSE}"

        error = copy(self)
        BelatedError.__init__(error, _ARGUMENT.sub(rename, self._message))
        return error


class LogError(BelatedError):
    """A log is invalid.

    Attributes
    ----------
    column : str or None
        The invalid argument or column.
    row : int or None
        The first invalid row, counted from 0 in the given order.
    fault : str or None
        What is wrong with the row: the part of the message after its place.
    """

    def __init__(
        self,
        message: str,
        *,
        column: str | None = None,
        row: int | None = None,
        fault: str | None = None,
        what: str | None = None,
    ) -> None:
        super().__init__(message)
        self.column = column
        self.row = row
        self.fault = fault
        self.what = what

    @classmethod
    def of_row(cls, column: str, row: int, fault: str) -> LogError:
        """Return the error for an invalid row."""
        return cls(f"{argument(column)} in row {row} {fault}", column=column, row=row, fault=fault)

    def at(self, place: str) -> LogError:
        """Return the error of a row with another description of its place than its number."""
        if self.fault is None:
            return self
        what = argument(str(self.column)) if self.what is None else self.what
        return LogError(f"{what} in {place} {self.fault}", column=self.column, fault=self.fault, what=self.what)

    def in_row(self, row: int) -> LogError:
        """Return the error of a row with another number."""
        moved = self.at(f"row {row}")
        moved.row = self.row if moved is self else row
        return moved


class OptionError(BelatedError):
    """An argument or option is invalid."""


class UnknownArmError(BelatedError):
    """The experiment has no arm with this label."""


class PropensitiesNeededError(BelatedError):
    """The log has only the chosen arm's probability, and the estimate needs every arm's."""


class PolicyError(BelatedError):
    """A policy did not return a probability for each arm."""


class MergeError(BelatedError):
    """Sums cannot be merged."""


class MissingLibraryError(BelatedError, ImportError):
    """An optional library is required but not installed."""


# ---------------------------------------------------------------- warnings


class BelatedWarning(UserWarning):
    """An estimate or interval is missing or unreliable; the message says why."""


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Record the warnings of this library in a list instead of showing them."""
    sentences: list[str] = []
    with _LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BelatedWarning)
        yield sentences
        sentences += [str(warning.message) for warning in caught if issubclass(warning.category, BelatedWarning)]


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress the warnings of this library."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)
        yield
