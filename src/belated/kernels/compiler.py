"""numba.njit with a cache on disk, if there can be one; a cache that is damaged or cannot be written does no harm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime.nrt import rtsys

from belated.base.progress import note

#: Whether this version of numba has been seen to load kernels by themselves; others do it their own way.
_CAN_LOAD_ALONE = numba.__version__.startswith("0.68.")


def compiled(function: Callable[..., object] | None = None, *, cache: bool = True, **options: Any) -> Any:
    """Compile a function, keeping the result for the next process if any folder can hold it.

    Functions that are handed a user's own function must not be kept: the cache would name its
    module, and fail in every process that does not have it.
    """
    if function is None:
        return _with(cache, options)
    return _with(cache, options)(function)


def _with(cache: bool, options: dict[str, Any]) -> Callable[[Callable[..., object]], Any]:
    def compile_(function: Callable[..., object]) -> Any:
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

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return what was kept for a signature; None if nothing was, or nothing that can be used."""
        kept = None
        try:
            load = self._load_alone if _CAN_LOAD_ALONE else super().load_overload
            kept = load(sig, target_context)
        except Exception:  # whatever unpickling runs into
            with suppress(Exception):
                self.flush()
        if kept is None:
            _say_once()
        return kept

    def _load_alone(self, sig: object, target_context: object) -> object:
        """Return what was kept, without all that only compiling needs, SciPy's linear algebra included.

        Numba loads that first, which takes longer than many answers; compiling loads it by itself.
        """
        rtsys.initialize(target_context)  # what compiled code calls
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: object, data: object) -> None:
        """Keep what was compiled for a signature, if that can be."""
        with suppress(Exception):
            super().save_overload(sig, data)


@cache
def _say_once() -> None:
    """Say, on a terminal, what takes long the first time."""
    note("Compiling the kernels, which is done once; 10 to 30 s.")
