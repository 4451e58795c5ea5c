"""Draws: each unit's arm is a function of the experiment's secret salt, the unit and the probabilities."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from struct import unpack

#: Bytes of a salt.
SALT = 32

#: Distinguishes the hashes of erased units from those of draws.
_ERASURE = b"belated erasure "


def uniform(salt: bytes, unit: str) -> float:
    """Return a number of [0, 1) for a unit: the first 53 bits of a keyed hash."""
    return uniforms(salt, [unit])[0]


def uniforms(salt: bytes, units: Iterable[str]) -> list[float]:
    """Return the number of each unit, as `uniform` does; the key is hashed once."""
    keyed, digests = blake2b(digest_size=8, key=salt), []
    for unit in units:
        own = keyed.copy()
        own.update(unit.encode())
        digests.append(own.digest())
    return [(number >> 11) / 9007199254740992.0 for number in unpack(f">{len(digests)}Q", b"".join(digests))]


@lru_cache(maxsize=256)
def cumulative(probabilities: tuple[float, ...]) -> tuple[float, ...]:
    """Return the sums up to every arm; the last arm that can be chosen has all that rounding left."""
    sums = list(accumulate(probabilities))
    last = max(arm for arm, p in enumerate(probabilities) if p > 0)
    return (*sums[:last], *[1.0] * (len(sums) - last))


def choose(u: float, sums: Sequence[float]) -> int:
    """Return the first arm whose cumulative probability exceeds `u`; never one of probability 0."""
    return bisect_right(sums, u)


def erased_digest(salt: bytes, unit: str) -> bytes:
    """Return a keyed hash by which an erased unit can be found again in a backup, but only with the salt."""
    return blake2b(unit.encode(), digest_size=32, key=salt, person=_ERASURE).digest()
