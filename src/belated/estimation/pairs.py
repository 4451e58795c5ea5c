"""Which arms are compared when nobody says which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

_Arm = TypeVar("_Arm")


def default_pairs(arms: Sequence[_Arm], baseline: _Arm | None = None) -> list[tuple[_Arm, _Arm]]:
    """Return the contrasts (arm, other): every other arm with the baseline, or all pairs if there is none.

    Of a pair, the later arm comes first: the first arm of an experiment is usually what it started from.

    Examples
    --------
    >>> default_pairs(["A", "B", "C"])
    [('B', 'A'), ('C', 'A'), ('C', 'B')]
    >>> default_pairs(["A", "B", "C"], "B")
    [('A', 'B'), ('C', 'B')]
    """
    if baseline is None:
        return [(later, earlier) for earlier, later in combinations(arms, 2)]
    return [(arm, baseline) for arm in arms if arm != baseline]
