"""A slow, obvious twin of `belated.summaries.cohorts`."""

from __future__ import annotations

import numpy as np


def terms(rows, events, edges):
    """Return what each row adds to the score of each bin, from the formula.

    Parameters
    ----------
    rows : list of (cell, x, age)
    events : list of (row, age, value)
    edges : sequence of float
        The ages at which the bins end.
    """
    by_bin = np.zeros((len(rows), len(edges)))

    def bin_of(age):
        return next(b for b, edge in enumerate(edges) if age <= edge)

    def at_risk(cell, age):
        return [x for other, x, reached in rows if other == cell and reached >= age]

    for i, (cell, x, reached) in enumerate(rows):
        for row, age, value in events:
            if rows[row][0] != cell:
                continue
            xs = at_risk(cell, age)
            if row == i:
                by_bin[i, bin_of(age)] += value * (x - np.mean(xs))
            if reached >= age:
                by_bin[i, bin_of(age)] -= value * (x - np.mean(xs)) / len(xs)
    return by_bin
