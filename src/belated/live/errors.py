"""Errors of live experiments; an interface over a network can tell them apart by their types."""

from __future__ import annotations

from belated.base.errors import BelatedError


class LiveError(BelatedError):
    """A live experiment refuses what it was asked."""


class UnknownExperimentError(LiveError):
    """The store has no experiment of this name."""


class NotRunningError(LiveError):
    """The experiment takes no new units: it has not started, or it has stopped."""


class ClosedError(LiveError):
    """The experiment is closed: it takes neither units nor outcomes."""


class ContradictionError(LiveError):
    """A unit was told another outcome before, and this one is not said to be a correction."""


class StorageError(LiveError):
    """The storage failed; what was asked is not acknowledged, and may be asked again."""


class CrossedError(StorageError):
    """Transactions crossed, and the storage ended one of them; it can be tried again at once."""


class SchemaError(LiveError):
    """The storage was written by another version of this library."""
