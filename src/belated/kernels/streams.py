"""Random numbers drawn in place: NumPy's SFC64 streams, bit for bit, without a call for each number.

A stream is four 64-bit words. `streams` seeds one for each replication as
``SFC64(SeedSequence(seed, spawn_key=(replication,)))`` would; uniforms and normals are those of
``numpy.random.Generator``, in the same order (the tests hold both).
"""

from __future__ import annotations

import math

import numpy as np

from belated.base.columns import Array
from belated.kernels.compiler import compiled
from belated.kernels.ziggurat import EDGE, HEIGHTS, SURE, WIDTHS

_POOL = 4  # words that SeedSequence mixes its entropy into
_WARM_UP = 12  # numbers that SFC64 throws away
_MASK = np.uint64(0xFFFFFFFF)
_MIX_FIRST, _MIX_FACTOR = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_OUT_FIRST, _OUT_FACTOR = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_LEFT, _RIGHT = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)

_ONE, _NIBBLE, _BYTE, _UNIT = np.uint64(1), np.uint64(8), np.uint64(0xFF), 1.0 / 9007199254740992.0
_LOW52 = np.uint64(0x000FFFFFFFFFFFFF)
_INVERSE_EDGE = 1.0 / EDGE


def streams(seed: int, replications: Array) -> Array:
    """Return the streams of some replications, (replications, 4) words."""
    keys = np.asarray(replications, dtype=np.uint64)
    if (keys > _MASK).any():
        raise ValueError("More than 2**32 replications.")
    entropy = [seed >> shift & int(_MASK) for shift in range(0, max(seed.bit_length(), 1), 32)]
    words = np.array(entropy + [0] * (_POOL - len(entropy)), dtype=np.uint64)
    states = np.empty((len(keys), 4), np.uint64)
    _seed(states, words, keys)
    return states


@compiled
def _seed(states, words, keys):
    """Seed a stream for each key: SeedSequence (O'Neill's seed_seq) hashes 32-bit words, the seed's, then the key's."""
    pool = np.empty(_POOL, np.uint64)
    for r in range(len(keys)):
        constant = _MIX_FIRST
        for i in range(_POOL):
            pool[i], constant = _hashed(words[i], constant, _MIX_FACTOR)
        for source in range(_POOL):
            for target in range(_POOL):
                if source != target:
                    word, constant = _hashed(pool[source], constant, _MIX_FACTOR)
                    pool[target] = _mixed(pool[target], word)
        for i in range(_POOL, len(words) + 1):
            for target in range(_POOL):
                word, constant = _hashed(words[i] if i < len(words) else keys[r], constant, _MIX_FACTOR)
                pool[target] = _mixed(pool[target], word)
        constant = _OUT_FIRST
        for i in range(3):
            low, constant = _hashed(pool[2 * i % _POOL], constant, _OUT_FACTOR)
            high, constant = _hashed(pool[(2 * i + 1) % _POOL], constant, _OUT_FACTOR)
            states[r, i] = low | high << np.uint64(32)
        states[r, 3] = _ONE
        for _ in range(_WARM_UP):
            next_word(states[r])


@compiled
def _hashed(word, constant, factor):
    """Return the hash of a 32-bit word, and the constant for the next."""
    after = constant * factor & _MASK
    word = (word ^ constant) * after & _MASK
    return word ^ word >> np.uint64(16), after


@compiled
def _mixed(x, y):
    both = (x * _LEFT - y * _RIGHT) & _MASK
    return both ^ both >> np.uint64(16)


@compiled
def next_word(s):
    """Return the next 64 random bits of a stream."""
    word, s[0], s[1], s[2], s[3] = _advanced(s[0], s[1], s[2], s[3])
    return word


@compiled
def _advanced(a, b, c, count):
    """Return a stream's next 64 bits, and its words after them."""
    word = a + b + count
    rotated = c << np.uint64(24) | c >> np.uint64(40)
    return word, b ^ b >> np.uint64(11), c + (c << np.uint64(3)), rotated + word, count + _ONE


@compiled
def uniform(s):
    """Draw from [0, 1)."""
    return (next_word(s) >> np.uint64(11)) * _UNIT


@compiled
def normal(s):
    """Draw a standard normal: the ziggurat, as NumPy draws it."""
    return normal_from(s, next_word(s))


@compiled
def normal_from(s, word):
    """Turn a stream's last word into a standard normal, drawing more if need be."""
    while True:
        layer = word & _BYTE
        bits = (word >> np.uint64(9)) & _LOW52
        x = bits * WIDTHS[layer]
        if (word >> _NIBBLE) & _ONE:
            x = -x
        if bits < SURE[layer]:
            return x
        if layer == 0:
            while True:
                far = -_INVERSE_EDGE * math.log1p(-uniform(s))
                if -2.0 * math.log1p(-uniform(s)) > far * far:
                    far += EDGE
                    return -far if (bits >> _NIBBLE) & _ONE else far
        elif (HEIGHTS[layer - _ONE] - HEIGHTS[layer]) * uniform(s) + HEIGHTS[layer] < math.exp(-0.5 * x * x):
            return x
        word = next_word(s)


@compiled
def gamma(s, shape):
    """Draw a standard gamma (Marsaglia and Tsang 2000)."""
    if shape == 1.0:
        return -math.log1p(-uniform(s))
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - uniform(s)) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(s)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log1p(-uniform(s)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return boost * d * v


@compiled
def fill_uniform(s, out, at, n):
    """Draw n numbers from [0, 1) into `out` from `at` on, the stream's words held in registers."""
    a, b, c, count = s[0], s[1], s[2], s[3]
    for i in range(at, at + n):
        word, a, b, c, count = _advanced(a, b, c, count)
        out[i] = (word >> np.uint64(11)) * _UNIT
    s[0], s[1], s[2], s[3] = a, b, c, count


@compiled
def fill_normal(s, out, at, n):
    """Draw n standard normals into `out` from `at` on, all but one in a hundred without leaving the registers."""
    a, b, c, count = s[0], s[1], s[2], s[3]
    for i in range(at, at + n):
        word, a, b, c, count = _advanced(a, b, c, count)
        layer = word & _BYTE
        bits = (word >> np.uint64(9)) & _LOW52
        x = bits * WIDTHS[layer]
        out[i] = -x if (word >> _NIBBLE) & _ONE else x
        if bits >= SURE[layer]:
            s[0], s[1], s[2], s[3] = a, b, c, count
            out[i] = normal_from(s, word)
            a, b, c, count = s[0], s[1], s[2], s[3]
    s[0], s[1], s[2], s[3] = a, b, c, count
