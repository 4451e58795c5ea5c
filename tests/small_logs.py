"""A small log whose columns a test can change."""

from __future__ import annotations

import belated as bl

HALF = [[0.5, 0.5]]


def log_of(rows=4, **changes):
    columns = {
        "arm": ["A", "B"] * (rows // 2),
        "outcome": [1.0] * rows,
        "propensity": HALF * rows,
        "arrived_at": list(range(1, rows + 1)),
    }
    return bl.Log(**{**columns, **changes})
