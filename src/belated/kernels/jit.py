"""Interpret first, compile when it pays.

The kernels are plain Python functions that numba can also compile. A small log is answered by
the interpreter before numba would even have been imported; once the rows seen in this process
would have paid for the compiler, every kernel is replaced, in place, by its compiled self.
Both run the same source in the same order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from belated.base.threads import Threads
from belated.kernels import arrivals, records, rows, sequence_blocks, sequence_bounds

#: Row-arm visits that the interpreter may make before compiling: about as long as loading the compiler takes.
BUDGET = 600_000

#: Rows from which a pass is cut into stretches for several threads. Where the cuts are depends on
#: the rows alone, never on the machine, and so do the results, to the last bit.
LONG = 1 << 19
STRETCHES = 4

_Result = TypeVar("_Result")

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


def in_stretches(rows: int, task: Callable[[int, int], _Result], *, divisible: bool = True) -> list[_Result]:
    """Call ``task(start, stop)`` for stretches that cover `rows`, in threads if they are many."""
    if rows < LONG or not divisible or not _compiled:
        with np.errstate(all="ignore"):  # the interpreter's arithmetic, as silent as the compiler's
            return [task(0, rows)]
    cuts = [rows * i // STRETCHES for i in range(STRETCHES + 1)]
    with Threads(workers()) as threads:
        return list(threads.map(task, cuts[:-1], cuts[1:]))


def workers() -> int:
    """Return how many threads share a long pass."""
    return min(STRETCHES, os.cpu_count() or 1)


def compile_kernels() -> None:
    """Replace the functions of the modules that have `KERNELS` by compiled ones, helpers before their callers."""
    global _compiled
    with _lock:
        if _compiled:
            return
        from belated.kernels.compiler import compiled

        for module in (rows, arrivals, records, sequence_bounds, sequence_blocks):
            for name in module.KERNELS:
                inlined = name in rows.INLINED
                kernel = compiled(getattr(module, name), nogil=True, error_model="numpy", forceinline=inlined)
                setattr(module, name, kernel)
        _compiled = True
