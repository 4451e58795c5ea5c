"""numba.njit with a cache on disk where there can be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


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
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError:  # no folder that could hold the cache: compile for this process only
            return numba.njit(**options)(function)

    return compile_
