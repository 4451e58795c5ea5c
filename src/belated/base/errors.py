"""What can go wrong, as types. Every message says what is wrong, where, and what would be right."""

from __future__ import annotations


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
    """

    def __init__(self, message: str, *, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.column = column
        self.row = row


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


class BelatedWarning(UserWarning):
    """An answer that is missing or empty, and why."""
