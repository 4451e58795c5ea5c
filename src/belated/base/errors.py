"""Types of errors and warnings, and context managers that record or suppress warnings.

A message says what is wrong, where, and what would be right.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Python's warning filters are global: two threads that change them at once would interfere
_LOCK = threading.RLock()


# ---------------------------------------------------------------- errors


class BelatedError(ValueError):
    """The base class of all errors of belated."""


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
        self, message: str, *, column: str | None = None, row: int | None = None, fault: str | None = None
    ) -> None:
        super().__init__(message)
        self.column = column
        self.row = row
        self.fault = fault

    @classmethod
    def of_row(cls, column: str, row: int, fault: str) -> LogError:
        """Return the error for an invalid row."""
        return cls(f"`{column}` in row {row} {fault}", column=column, row=row, fault=fault)

    def at(self, place: str) -> LogError:
        """Return the error of a row with another description of its place than its number."""
        if self.fault is None:
            return self
        return LogError(f"`{self.column}` in {place} {self.fault}", column=self.column, fault=self.fault)


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
