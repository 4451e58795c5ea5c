"""Interpret first, compile when it pays.

The kernels are plain Python functions that numba can also compile. A small log is answered by
the interpreter before numba would even have been imported; once the rows seen in this process
would have paid for the compiler, every kernel is replaced, in place, by its compiled self.
Both run the same source in the same order.
"""

from __future__ import annotations

import threading
from typing import Any

from belated.kernels import rows

#: Row-arm visits that the interpreter may make before compiling; about a third of a second.
BUDGET = 250_000

_lock = threading.Lock()
_spent = 0
_compiled = False


def ready(work: int) -> None:
    """Announce `work` row-arm visits, compiling the kernels if they are worth it."""
    global _spent
    if _compiled:
        return
    _spent += work
    if _spent > BUDGET:
        compile_kernels()


def compile_kernels() -> None:
    """Replace the functions of `rows` by compiled ones, helpers before their callers."""
    global _compiled
    with _lock:
        if _compiled:
            return
        for name in rows.KERNELS:
            setattr(rows, name, _compile(getattr(rows, name)))
        _compiled = True


def _compile(function: Any) -> Any:
    import numba

    options = {"nogil": True, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder that could hold the cache: compile for this process only
        return numba.njit(**options)(function)
