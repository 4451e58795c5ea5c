"""Draws: each unit's arm is a function of the experiment's secret salt, the unit and the probabilities."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate

import numpy as np

from belated.base.columns import Array

#: Bytes of a salt.
SALT = 32

#: What tells the hashes of erased units from those of draws.
_ERASED = b"belated erasure "


def uniform(salt: bytes, unit: str) -> float:
    """Return a number of [0, 1) for a unit: the first 53 bits of a keyed hash."""
    return float(uniforms(salt, [unit])[0])


def uniforms(salt: bytes, units: Iterable[str]) -> Array:
    """Return the number of each unit, as `uniform` does; the key is hashed once."""
    keyed, digests = blake2b(digest_size=8, key=salt), []
    for unit in units:
        own = keyed.copy()
        own.update(unit.encode())
        digests.append(own.digest())
    return np.asarray((np.frombuffer(b"".join(digests), ">u8") >> np.uint64(11)) / 9007199254740992.0)


def cumulative(probabilities: Sequence[float]) -> list[float]:
    """Return the sums up to every arm; the last arm that can be chosen has all that rounding left."""
    sums = list(accumulate(probabilities))
    last = max(arm for arm, p in enumerate(probabilities) if p > 0)
    return [*sums[:last], *[1.0] * (len(sums) - last)]


def choose(u: float, sums: Sequence[float]) -> int:
    """Return the first arm whose cumulative probability exceeds `u`; never one of probability 0."""
    return bisect_right(sums, u)


def choose_many(numbers: Array, sums: Sequence[float]) -> list[int]:
    """Return the arm of each number, as `choose` does."""
    arms: list[int] = np.searchsorted(sums, numbers, side="right").tolist()
    return arms


def erased_digest(salt: bytes, unit: str) -> bytes:
    """Return a keyed hash by which an erased unit is found again in a backup, and by nobody without the salt."""
    return blake2b(unit.encode(), digest_size=32, key=salt, person=_ERASED).digest()
