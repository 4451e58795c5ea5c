"""Warnings that are kept, or not said, while a part of the work is done; one thread at a time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from belated.base.errors import BelatedWarning

# Python's filters of warnings belong to the whole process: two threads that changed them at once would mix them up
_LOCK = threading.RLock()


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
