"""The ziggurat's tables for standard normals (Marsaglia and Tsang 2000), equal to NumPy's bit for bit.

The density exp(-x^2 / 2) is covered by 256 layers of the same area. Layer i > 0 reaches from 0 to
X_i and from the height f(X_i) up to f(X_{i-1}), with f(X_{i-1}) = f(X_i) + AREA / X_i; layer 0
is the rectangle below f(EDGE), with the tail.

NumPy's tables come from this recurrence in double precision. Here logarithms and exponentials are
rounded from many digits, so that the tables do not depend on the platform's library.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np

from belated.base.columns import Array

#: Where the tail begins, and the area of each layer.
EDGE = 3.6541528853610088
AREA = 0.0049286732339746519

LAYERS = 256

#: Steps of a layer's width: a draw's position in it has 52 bits.
_STEPS = 2**52

#: The one layer whose height NumPy has one unit in the last place above the nearest number.
_HIGHER = 38

_DIGITS = 40


def _height(x: float) -> float:
    """Return exp(-x^2 / 2), the square in double precision."""
    return float(Decimal(-0.5 * x * x).exp())


def _tables() -> tuple[Array, Array, Array]:
    """Return each layer's width over 2^52, the steps that surely lie below the density, and its height."""
    edges, heights = np.zeros(LAYERS), np.ones(LAYERS)
    edges[-1] = x = EDGE
    with localcontext() as context:
        context.prec = _DIGITS
        for i in range(LAYERS - 1, 0, -1):
            heights[i] = _height(x)
            if i == _HIGHER:
                heights[i] = math.nextafter(heights[i], math.inf)
            if i > 1:
                edges[i - 1] = x = math.sqrt(-2.0 * float(Decimal(float(heights[i]) + AREA / x).ln()))
    sure = np.empty(LAYERS, np.uint64)
    sure[1:] = np.round(edges[:-1] / edges[1:] * _STEPS)
    sure[0] = round(EDGE * heights[-1] / AREA * _STEPS)
    widths = edges / _STEPS
    widths[0] = AREA / heights[-1] / _STEPS
    return widths, sure, heights


WIDTHS, SURE, HEIGHTS = _tables()
