"""SciPy's special functions, by their names there; SciPy is loaded when the first is used.

Loading it takes as long as a whole command that decides for a unit, which needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def __getattr__(name: str) -> Callable[..., Any]:  # SciPy has no types
    """Return a function, and keep it."""
    if name.startswith("__"):
        raise AttributeError(name)
    from scipy import special

    function: Callable[..., Any] = getattr(special, name)
    globals()[name] = function
    return function
