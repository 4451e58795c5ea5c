"""What can go wrong, as types of errors and a type of warnings; and warnings kept or not said.

A message says what is wrong, where, and what is right.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Python's filters of warnings belong to the whole process: two threads that changed them at once would mix them up
_LOCK = threading.RLock()


# ---------------------------------------------------------------- errors


class BelatedError(ValueError):
    """Base of everything belated raises on purpose."""


class LogError(BelatedError):
    """A table that cannot be a log.

    Attributes
    ----------
    column : str or None
        The argument or column at fault.
    row : int or None
        The first offending row, counted from 0 in the order the rows were given.
    fault : str or None
        Of a row, what is wrong with it: the rest of the sentence after its place.
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
        """Return the error that a row has a fault."""
        return cls(f"`{column}` in row {row} {fault}", column=column, row=row, fault=fault)

    def at(self, place: str) -> LogError:
        """Return the error of a row, told by its place instead of its number."""
        if self.fault is None:
            return self
        return LogError(f"`{self.column}` in {place} {self.fault}", column=self.column, fault=self.fault)


class OptionError(BelatedError):
    """An argument that is not one of the possible ones."""


class UnknownArmError(BelatedError):
    """A question about an arm that the experiment does not have."""


class PropensitiesNeededError(BelatedError):
    """The log holds only the chosen arm's probability, and this question needs every arm's."""


class PolicyError(BelatedError):
    """A policy that did not answer with a probability for each arm."""


class MergeError(BelatedError):
    """Sums that do not belong together."""


class MissingLibraryError(BelatedError, ImportError):
    """An optional library is needed and is not installed."""


# ---------------------------------------------------------------- warnings


class BelatedWarning(UserWarning):
    """An answer that is missing or empty, and why."""


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Give a list that, at the end, holds the sentences of the warnings of this library, which are not shown."""
    sentences: list[str] = []
    with _LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BelatedWarning)
        yield sentences
        sentences += [str(warning.message) for warning in caught if issubclass(warning.category, BelatedWarning)]


@contextmanager
def without_warnings() -> Iterator[None]:
    """Say no warnings of this library meanwhile."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", BelatedWarning)
        yield
