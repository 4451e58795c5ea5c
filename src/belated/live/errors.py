"""Errors of live experiments; an interface over a network can tell them apart by their types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from belated.base.errors import BelatedError, LogError, OptionError, PolicyError

#: Every kind of problem that the service has, by the word that its type ends with.
ProblemKind = Literal[
    "malformed", "no-token", "scope", "other-experiment", "cross-origin", "form", "not-found", "unknown-experiment",
    "unknown-token", "method", "slow", "contradiction", "not-running", "conflict", "no-rows", "closed", "too-large",
    "encoded", "host", "invalid", "policy", "too-many", "head", "internal", "overloaded", "not-ready", "schema",
    "storage",
]  # fmt: skip


class LiveError(BelatedError):
    """A live experiment refuses a request."""


class UnknownExperimentError(LiveError):
    """The store has no experiment of this name."""


class NotRunningError(LiveError):
    """The experiment takes no new units: it has not started, or it has stopped."""


class ClosedError(LiveError):
    """The experiment is closed: it takes neither units nor outcomes."""


class ContradictionError(LiveError):
    """Another outcome was told before for this unit, and this one is not marked as a correction."""


class OutdatedError(LiveError):
    """Somebody else changed the experiment after this change was decided upon."""


class StorageError(LiveError):
    """The storage failed; the request is not acknowledged, and may be sent again."""


class DamagedError(StorageError):
    """The content of the storage is damaged: restore a backup."""


class CrossedError(StorageError):
    """The storage ended a transaction that conflicted with another one; it can be tried again at once."""


class OverloadedError(StorageError):
    """Too many requests are waiting for the storage; this one is not stored, and may be sent again later."""


class SchemaError(LiveError):
    """The storage was written by another version of this library."""


class AccessError(LiveError):
    """The service does not know the token, or the token does not allow the request."""


#: The errors, special cases first, and the kinds of problems for which a client raises each. The first kind is the one
#: that the service has for the error.
PROBLEMS: tuple[tuple[type[BelatedError], tuple[ProblemKind, ...]], ...] = (
    (UnknownExperimentError, ("unknown-experiment",)),
    (ContradictionError, ("contradiction",)),
    (NotRunningError, ("not-running",)),
    (ClosedError, ("closed",)),
    (SchemaError, ("schema",)),
    (AccessError, ("scope", "no-token", "other-experiment")),
    (OverloadedError, ("overloaded", "too-many")),
    (StorageError, ("storage",)),
    (LiveError, ("conflict",)),
    (LogError, ("no-rows",)),
    (PolicyError, ("policy",)),
    (OptionError, ("invalid", "malformed")),
)


@contextmanager
def legible(what: str) -> Iterator[None]:
    """Raise one sentence if something that a store holds cannot be read."""
    try:
        yield
    except LiveError:
        raise
    except _READING_ERRORS:
        raise DamagedError(
            f"The store is damaged: {what} cannot be read; restore a backup with `belated live restore`."
        ) from None


@contextmanager
def unharmed(name: str) -> Iterator[None]:
    """Raise one sentence if rows of a file cannot be worked with; SQLite takes any value in any column."""
    try:
        yield
    except BelatedError:
        raise
    except _READING_ERRORS as error:
        raise DamagedError(
            f"{name} is damaged: a value in it is not of its kind; check it with `belated live verify`, and restore a "
            "backup with `belated live restore`."
        ) from error


#: What happens to a value that is not of its kind.
_READING_ERRORS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
