"""numba.njit with a cache on disk where there can be one; what is wrong with it stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache


def compiled(function: Any = None, *, cache: bool = True, **options: Any) -> Any:
    """Compile a function, keeping the result for the next process if any folder can hold it.

    Functions that are handed a user's own function must not be kept: the cache would name its
    module, and fail in every process that does not have it.
    """
    if function is None:
        return _with(cache, options)
    return _with(cache, options)(function)


def _with(cache: bool, options: dict[str, Any]) -> Callable[[Any], Any]:
    def compile_(function: Any) -> Any:
        dispatcher = numba.njit(**options)(function)
        if cache:
            with suppress(RuntimeError, OSError):  # no folder that could hold it: compile for this process only
                dispatcher._cache = OnlyACache(function)
        return dispatcher

    return compile_


class OnlyACache(FunctionCache):
    """A cache that is made anew if it cannot be read, and done without if it cannot be written.

    Files may be cut short, name what another version had, or be in a folder that is full or was taken away.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for a signature; None if nothing was, or nothing that can be used."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever unpickling runs into
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for a signature, if that can be."""
        with suppress(Exception):
            super().save_overload(sig, data)
